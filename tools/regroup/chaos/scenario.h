// SPDX-License-Identifier: Apache-2.0
// What happens in one run of `regroup chaos`: which fault, to whom, when, over which wire, and which collectives run.
// A pure function of the run's own seed and of what the user asked for. Every choice is drawn apart from the others, so
// that asking for one fault or one wire alone leaves the rest as it was.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/case.h"
#include "regroup/types.h"

namespace regroup::tool::chaos {

// resume: stopped, and continued when the others have gone on. slow: late, but alive.
enum class Fault : uint8_t { kill, stop, resume, partition, abort, slow };
inline constexpr int kFaults = 6;
enum class Wire : uint8_t { shm, tcp, mixed };
inline constexpr int kWires = 3;
// Where in an operation: the victim does it to itself just before, or the parent does it a moment after its begin.
enum class Moment : uint8_t { before, inside };

// As users write them; "continue" for `resume`.
const char* name(Fault fault);
const char* name(Wire wire);
std::optional<Fault> parse_fault(const std::string& text);
std::optional<Wire> parse_wire(const std::string& text);

// What the user asked for.
struct Wishes {
  Rank ranks = 4;
  std::vector<Fault> faults = {Fault::kill, Fault::stop, Fault::resume, Fault::partition, Fault::abort, Fault::slow};
  std::optional<Wire> wire;                                           // else in turn
  std::optional<uint64_t> resident;                                   // of a victim that is killed
  std::chrono::nanoseconds timeout = std::chrono::milliseconds(300);  // where nothing else tells of the fault
};

struct Scenario {
  uint64_t seed = 0;
  Rank ranks = 0;
  Fault fault = Fault::kill;
  Wire wire = Wire::shm;
  Rank victim = 0;
  std::vector<bool> apart;      // for each rank whether it is on the victim's side of the cut; else: the victim alone
  std::vector<uint32_t> hosts;  // for each rank which host it counts as being on
  uint32_t operation = 0;       // the fault comes at this one
  Moment moment = Moment::before;
  std::chrono::nanoseconds delay{0};    // after the operation's begin
  std::chrono::nanoseconds pause{0};    // how late who is slow
  std::chrono::nanoseconds timeout{0};  // the group's
  uint64_t resident = 0;                // bytes that the victim has touched
  bool has_child = false;               // of the victim: it lives on and holds the descriptors
  bool says_goodbye = false;            // members end by leave(), not by dropping their handle
  uint64_t most_bytes = 0;              // of an operation
};

// The seed of run `index`.
uint64_t seed_of_run(uint64_t seed, uint64_t index);
Scenario make_scenario(const Wishes& wishes, uint64_t run_seed);

// The collective that members run as number `index` of life 1, 2, …; the same for all of them. And how it is called.
conformance::Case operation_of(const Scenario& scenario, uint64_t life, uint64_t index, Rank ranks);
// Of the values in it.
uint64_t values_of(const Scenario& scenario, uint64_t life, uint64_t index);

// One line for people.
std::string describe(const Scenario& scenario);

}  // namespace regroup::tool::chaos
