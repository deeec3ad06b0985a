// SPDX-License-Identifier: Apache-2.0
// Which copies a program leaves out, because a message can be folded with the memory that they would copy.
#include "executor/program.h"

#include <gtest/gtest.h>

#include "algorithms/planners.h"

namespace regroup::executor {
namespace {

using plan::Schedule;
using plan::Slice;
using plan::Space;

constexpr Slice kInput{Space::input, 0, 0, 100};
constexpr Slice kOutput{Space::output, 0, 0, 100};

TEST(Program, SparesTheCopyOfAFirstOperand) {
  Schedule schedule(0, 2);
  const auto copied = schedule.copy(kInput, kOutput);
  const auto folded = schedule.receive_reduce(1, kOutput, false, true, {copied});
  schedule.send(1, kOutput, {folded});
  const Program program(std::move(schedule));
  EXPECT_EQ(program.spared_copy(folded), copied);
  EXPECT_TRUE(program.spared(copied));
}

TEST(Program, KeepsACopyThatOthersRead) {
  Schedule schedule(0, 2);
  const auto copied = schedule.copy(kInput, kOutput);
  const auto sent = schedule.send(1, kOutput, {copied});
  const auto folded = schedule.receive_reduce(1, kOutput, false, true, {copied, sent});
  const Program program(std::move(schedule));
  EXPECT_EQ(program.spared_copy(folded), plan::kNoStep);
  EXPECT_FALSE(program.spared(copied));
}

TEST(Program, KeepsACopyOfOtherElements) {
  Schedule schedule(0, 2);
  const auto copied = schedule.copy(kInput, kOutput);
  const auto folded = schedule.receive_reduce(1, {Space::output, 0, 0, 50}, false, true, {copied});
  const Program program(std::move(schedule));
  EXPECT_EQ(program.spared_copy(folded), plan::kNoStep);
  EXPECT_FALSE(program.spared(copied));
}

TEST(Program, NoCopyIsLeftInAnAllReduceOfTwo) {
  plan::Problem problem;
  problem.size = 2;
  problem.count = 1000;
  const Program program(algorithms::plan_all_reduce_rabenseifner(problem));
  const auto& steps = program.schedule().steps();
  for (plan::StepIndex index = 0; index < steps.size(); ++index) {
    if (steps[index].kind == plan::StepKind::copy) {
      EXPECT_TRUE(program.spared(index)) << index;
    }
  }
}

}  // namespace
}  // namespace regroup::executor
