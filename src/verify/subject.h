// SPDX-License-Identifier: Apache-2.0
// What the parts of the verifier share: the schedules under proof, how their steps hang together, and what was found.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "verify/layout.h"
#include "verify/verifier.h"

namespace regroup::verify {

// Steps of all ranks, numbered through: rank 0's first.
using StepId = uint32_t;
inline constexpr StepId kNoStepId = UINT32_MAX;

struct Subject {
  std::span<const Member> members;
  std::span<const plan::Schedule> schedules;
  Options options;

  std::vector<std::vector<MemberLayout>> layouts;  // [rank][member]
  std::vector<uint64_t> memory_ends;               // [rank]

  std::vector<StepId> bases;     // of each rank's first step, and the total
  std::vector<Rank> ranks;       // of each step
  std::vector<StepId> partners;  // send ↔ receive; await → the first notify that satisfies it

  Rank size() const { return static_cast<Rank>(schedules.size()); }
  StepId step_count() const { return bases.back(); }
  const plan::Step& step(StepId id) const { return schedules[ranks[id]].steps()[id - bases[ranks[id]]]; }
  std::span<const plan::Source> sources(StepId id) const { return schedules[ranks[id]].sources(step(id)); }
  std::span<const plan::StepIndex> after(StepId id) const { return schedules[ranks[id]].after(step(id)); }
  // "step 4 of rank 2 (send)"
  std::string describe(StepId id) const;
};

class Findings {
 public:
  explicit Findings(size_t most) : most_(most) {}

  bool full() const { return all_.size() >= most_; }
  bool empty() const { return all_.empty(); }
  void add(Fault fault, Rank rank, plan::StepIndex step, std::string text) {
    if (!full()) all_.push_back({fault, rank, step, std::move(text)});
  }
  void add(const Subject& subject, Fault fault, StepId id, std::string text) {
    add(fault, subject.ranks[id], id - subject.bases[subject.ranks[id]], std::move(text));
  }
  std::vector<Finding> take() { return std::move(all_); }

 private:
  size_t most_;
  std::vector<Finding> all_;
};

inline bool receives(plan::StepKind kind) {
  return kind == plan::StepKind::receive || kind == plan::StepKind::receive_reduce;
}
inline bool folds(plan::StepKind kind) {
  return kind == plan::StepKind::reduce || kind == plan::StepKind::receive_reduce || kind == plan::StepKind::get_reduce;
}
inline bool gets(plan::StepKind kind) { return kind == plan::StepKind::get || kind == plan::StepKind::get_reduce; }
// Has a destination.
inline bool writes(plan::StepKind kind) {
  return kind != plan::StepKind::send && kind != plan::StepKind::notify && kind != plan::StepKind::await;
}

std::string to_string(const plan::Slice& slice);

// Fills in bases, ranks and partners, and checks everything that can be checked step by step.
void check_structure(Subject& subject, Findings& findings);

// An order in which all steps can run, with sends counted where they start and all others where they end; shorter than
// the number of steps if there is a deadlock, which is then reported.
std::vector<StepId> check_progress(const Subject& subject, Findings& findings);

// Runs the steps symbolically in that order: races, lifetimes, values.
void check_execution(const Subject& subject, const std::vector<StepId>& order, Findings& findings);

}  // namespace regroup::verify
