// SPDX-License-Identifier: Apache-2.0
// The second part of the proof: every step completes. A send is taken to complete only when its receive was posted,
// which is the least that a transport may do.
#include "verify/subject.h"

namespace regroup::verify {

using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

// Starts and ends of steps, each as soon as what it waits for is over.
class Progress {
 public:
  explicit Progress(const Subject& subject) : subject_(subject) {
    const StepId count = subject.step_count();
    to_start_.resize(count);
    to_end_.assign(count, 1);
    list_dependents();
    order_.reserve(count);
  }

  std::vector<StepId> run() {
    for (StepId id = 0; id < subject_.step_count(); ++id) {
      if (to_start_[id] == 0) start(id);
    }
    while (!ended_.empty()) {
      const StepId id = ended_.back();
      ended_.pop_back();
      for (uint32_t at = dependent_bases_[id]; at < dependent_bases_[id + 1]; ++at) {
        const StepId dependent = dependents_[at];
        if (--to_start_[dependent] == 0) start(dependent);
      }
      for (StepId await = first_await_[id]; await != kNoStepId; await = next_await_[await]) count_down_end(await);
    }
    return std::move(order_);
  }

  bool started(StepId id) const { return to_start_[id] == 0; }
  bool ended(StepId id) const { return to_end_[id] == 0; }

 private:
  void list_dependents() {
    const StepId count = subject_.step_count();
    dependent_bases_.assign(count + 1, 0);
    first_await_.assign(count, kNoStepId);
    next_await_.assign(count, kNoStepId);
    for (StepId id = 0; id < count; ++id) {
      const StepId base = subject_.bases[subject_.ranks[id]];
      for (const StepIndex earlier : subject_.after(id)) ++dependent_bases_[base + earlier + 1];
      to_start_[id] = static_cast<uint32_t>(subject_.after(id).size());
      const StepId partner = subject_.partners[id];
      if (partner != kNoStepId) ++to_end_[id];
      if (subject_.step(id).kind == StepKind::await) {
        next_await_[id] = first_await_[partner];
        first_await_[partner] = id;
      }
    }
    for (StepId id = 0; id < count; ++id) dependent_bases_[id + 1] += dependent_bases_[id];
    dependents_.resize(dependent_bases_[count]);
    std::vector<uint32_t> next(dependent_bases_.begin(), dependent_bases_.end() - 1);
    for (StepId id = 0; id < count; ++id) {
      const StepId base = subject_.bases[subject_.ranks[id]];
      for (const StepIndex earlier : subject_.after(id)) dependents_[next[base + earlier]++] = id;
    }
  }

  void start(StepId id) {
    const StepKind kind = subject_.step(id).kind;
    if (kind == StepKind::send) order_.push_back(id);
    count_down_end(id);
    if (kind == StepKind::send || receives(kind)) count_down_end(subject_.partners[id]);
  }

  void count_down_end(StepId id) {
    if (--to_end_[id] > 0) return;
    if (subject_.step(id).kind != StepKind::send) order_.push_back(id);
    ended_.push_back(id);
  }

  const Subject& subject_;
  std::vector<uint32_t> to_start_, to_end_;  // how much each still waits for
  std::vector<uint32_t> dependent_bases_;    // into dependents_, by step
  std::vector<StepId> dependents_;
  std::vector<StepId> first_await_, next_await_;  // the awaits that a notify satisfies
  std::vector<StepId> ended_;                     // whose dependents don't know it yet
  std::vector<StepId> order_;
};

}  // namespace

std::vector<StepId> check_progress(const Subject& subject, Findings& findings) {
  Progress progress(subject);
  std::vector<StepId> order = progress.run();
  if (order.size() == subject.step_count()) {
    bool all = true;
    for (StepId id = 0; id < subject.step_count(); ++id) all = all && progress.ended(id);
    if (all) return order;
  }
  for (StepId id = 0; id < subject.step_count() && !findings.full(); ++id) {
    if (!progress.started(id) || progress.ended(id)) continue;
    findings.add(subject, Fault::deadlock, id,
                 "never completes: it waits for " + subject.describe(subject.partners[id]) +
                     ", which waits for it in turn through other steps");
  }
  return order;
}

}  // namespace regroup::verify
