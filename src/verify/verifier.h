// SPDX-License-Identifier: Apache-2.0
// The symbolic verifier: proves that the schedules of all ranks together do what the collective promises, for every
// order in which their steps may run. Pure; it knows no planner, no transport and no element type.
//
// What it proves, in this order (a later part needs the earlier ones, and is left out where those fail):
//   1. structure: every index, slice and dependency is in range; each message and each mark has its counterpart,
//   2. progress: all steps complete, even where a send completes only after its receive was posted,
//   3. no races: two accesses to the same element of a rank's memory, one of them a write, are ordered; and a peer's
//   reads
//      of it are over when the owner returns,
//   4. values: every element of the output holds exactly the contributions it should, folded once, finished once, by
//   the
//      same expression on all ranks; nothing reads what was never written; the input stays as it was.
// In place, a copy of elements onto themselves counts as no access: whoever runs the steps leaves it out.
// Memory is kept as runs of equal origin, so that the cost depends on the number of steps and not on the counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::verify {

enum class Fault : uint8_t {
  structure,      // a field is out of range or contradicts another
  matching,       // a message, or a mark that is awaited, without its counterpart
  deadlock,       // steps that can't complete
  race,           // two accesses to the same memory without an order between them
  lifetime,       // a peer may still read the memory of a rank that has returned
  uninitialised,  // reads memory that nothing has written
  input_written,  // writes into the caller's input
  fold,           // folds what doesn't belong together: an element twice, different elements, a finished result
  result,         // an element of the output isn't what it should be
  order,          // results differ between ranks, or aren't one fold in rank order where that is promised
};
inline constexpr int kFaults = 10;
std::string_view name(Fault fault);

struct Finding {
  Fault fault = Fault::structure;
  Rank rank = 0;
  plan::StepIndex step = plan::kNoStep;  // kNoStep: not about one step
  std::string text;                      // one sentence
};
// "rank 3, step 7: race: …"
std::string to_string(const Finding& finding);

// Between which ranks one-sided steps are allowed.
enum class Reads : uint8_t { none, inside_hosts, everywhere };

// One operation of a batch; a plain collective is a batch of one.
struct Member {
  std::span<const plan::Problem> problems;  // one a rank
  bool in_place = false;                    // input and output share memory as plan::Space says
  bool single_fold = false;                 // expected: one fold over all inputs, in rank order
  bool rank_order = false;                  // expected: contributions in rank order, however they are bracketed
};

struct Options {
  Reads reads = Reads::everywhere;
  size_t most_findings = 8;  // stop after so many
};

// Empty: proved. `schedules`: one a rank.
std::vector<Finding> verify(std::span<const Member> members, std::span<const plan::Schedule> schedules,
                            const Options& options = {});
std::vector<Finding> verify(const Member& member, std::span<const plan::Schedule> schedules,
                            const Options& options = {});

}  // namespace regroup::verify
