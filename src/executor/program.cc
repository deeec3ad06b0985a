// SPDX-License-Identifier: Apache-2.0
#include "executor/program.h"

namespace regroup::executor {

using plan::StepIndex;
using plan::StepKind;

Program::Program(plan::Schedule schedule) : schedule_(std::move(schedule)) {
  const auto& steps = schedule_.steps();
  first_successor_.assign(steps.size() + 1, 0);
  waits_.resize(steps.size());
  message_of_.assign(steps.size(), 0);
  for (StepIndex index = 0; index < steps.size(); ++index) {
    const plan::Step& step = steps[index];
    const auto after = schedule_.after(step);
    waits_[index] = static_cast<uint32_t>(after.size());
    if (after.empty()) first_.push_back(index);
    for (const StepIndex earlier : after) ++first_successor_[earlier + 1];
    if (step.kind == StepKind::send || step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
      message_of_[index] = messages_++;
    }
  }
  for (size_t i = 1; i < first_successor_.size(); ++i) first_successor_[i] += first_successor_[i - 1];
  successors_.resize(first_successor_.back());
  std::vector<uint32_t> next(first_successor_.begin(), first_successor_.end() - 1);
  for (StepIndex index = 0; index < steps.size(); ++index) {
    for (const StepIndex earlier : schedule_.after(steps[index])) successors_[next[earlier]++] = index;
  }
}

uint64_t Program::bytes() const {
  return schedule_.steps().size() * (sizeof(plan::Step) + 6 * sizeof(uint32_t)) +
         successors_.size() * sizeof(StepIndex);
}

}  // namespace regroup::executor
