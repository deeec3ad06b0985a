// SPDX-License-Identifier: Apache-2.0
// A schedule made ready to run: immutable, shared by all its runs, kept in the plan cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule.h"

namespace regroup::executor {

class Program {
 public:
  explicit Program(plan::Schedule schedule);

  const plan::Schedule& schedule() const { return schedule_; }
  std::span<const plan::StepIndex> successors(plan::StepIndex step) const {
    return {successors_.data() + first_successor_[step], first_successor_[step + 1] - first_successor_[step]};
  }
  // How many steps each step waits for.
  const std::vector<uint32_t>& waits() const { return waits_; }
  // Steps that wait for none, ascending.
  const std::vector<plan::StepIndex>& first() const { return first_; }
  // Sends and receives, and which of them each step is.
  uint32_t messages() const { return messages_; }
  uint32_t message_of(plan::StepIndex step) const { return message_of_[step]; }
  // Of a receive_reduce: the copy before it that only brings its first operand to where the result goes, and that need
  // not be carried out, since a message can be folded with memory elsewhere; kNoStep: there is none such.
  plan::StepIndex spared_copy(plan::StepIndex step) const { return spared_copy_[step]; }
  // Of a copy: whether a receive_reduce spares it.
  bool spared(plan::StepIndex step) const { return spared_[step]; }
  // An estimate of the memory this takes, for the cache's limit.
  uint64_t bytes() const;

 private:
  void find_spared_copies();

  plan::Schedule schedule_;
  std::vector<uint32_t> first_successor_;
  std::vector<plan::StepIndex> successors_;
  std::vector<uint32_t> waits_;
  std::vector<plan::StepIndex> first_;
  std::vector<uint32_t> message_of_;
  uint32_t messages_ = 0;
  std::vector<plan::StepIndex> spared_copy_;
  std::vector<bool> spared_;
};

}  // namespace regroup::executor
