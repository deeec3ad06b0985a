// SPDX-License-Identifier: Apache-2.0
// One rank of a group that runs items of the suite one after the other: cases, bad calls, calls that do not match.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/arena.h"
#include "conformance/case.h"
#include "regroup/group.h"
#include "regroup/memory.h"

namespace regroup::conformance {

enum class Verdict : uint8_t { none, passed, failed, unsupported };

struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string text;          // of a failure
  uint64_t fingerprint = 0;  // of a result that all ranks must have alike; 0: there is none
  bool out_of_step = false;  // ranks may no longer be at the same operation: the group is of no use for further cases

  static Outcome failed(std::string text) { return {Verdict::failed, std::move(text), 0, false}; }
  static Outcome lost(std::string text) { return {Verdict::failed, std::move(text), 0, true}; }
};

class Member {
 public:
  // The group outlives the member. `allocated` gives memory from regroup::allocate.
  Member(ProcessGroup& group, uint64_t seed);

  Outcome run_case(const Row& row);
  // Calls that are wrong by themselves: each is refused at once with the right code, and the group goes on.
  Outcome run_refusal(size_t index);
  // Calls that do not match between ranks: `mismatch` everywhere, and the group goes on.
  Outcome run_mismatch(size_t index);
  // What broke the group, for good.
  bool broken() const { return !group_.last_failure().ok(); }

 private:
  struct Companions;
  Outcome run_collective(const Case& c);
  Outcome run_exchange(const Case& c);
  Outcome run_fan_in(const Case& c);
  Outcome judge(const Case& c, const Status& status, const char* call) const;
  Status call(const Case& c, const Operation& operation, Companions& companions);
  Outcome probe(bool told);
  uint64_t seed_of(const Row& row, uint64_t round) const;

  ProcessGroup& group_;
  uint64_t seed_;
  std::vector<std::byte> ordinary_bytes_;
  Allocation allocation_;
  Arena ordinary_, allocated_;
};

// The names of all refusals and mismatches, by index.
const std::vector<std::string>& refusal_names();
const std::vector<std::string>& mismatch_names();

}  // namespace regroup::conformance
