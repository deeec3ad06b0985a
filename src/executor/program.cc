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
  find_spared_copies();
}

// A copy that only the receive_reduce waits for is read by nothing else before that; and whatever may overwrite the
// copy's source comes behind the copy, so behind the receive_reduce as well.
void Program::find_spared_copies() {
  const auto& steps = schedule_.steps();
  spared_copy_.assign(steps.size(), plan::kNoStep);
  spared_.assign(steps.size(), false);
  for (StepIndex index = 0; index < steps.size(); ++index) {
    const plan::Step& step = steps[index];
    if (step.kind != StepKind::receive_reduce) continue;
    for (const StepIndex earlier : schedule_.after(step)) {
      const plan::Step& before = steps[earlier];
      if (before.kind != StepKind::copy || before.member != step.member || !(before.to == step.to)) continue;
      if (successors(earlier).size() != 1) continue;
      spared_copy_[index] = earlier;
      spared_[earlier] = true;
      break;
    }
  }
}

uint64_t Program::bytes() const {
  return schedule_.steps().size() * (sizeof(plan::Step) + 7 * sizeof(uint32_t)) +
         successors_.size() * sizeof(StepIndex);
}

}  // namespace regroup::executor
