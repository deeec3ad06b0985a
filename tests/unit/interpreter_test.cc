// SPDX-License-Identifier: Apache-2.0
// That the interpreter notices what it is there for.
#include "support/interpreter.h"

#include <gtest/gtest.h>

namespace regroup::testing {
namespace {

using plan::kDone;
using plan::Problem;
using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::StepIndex;

constexpr Slice kInput{Space::input, 0, 0, 4};
constexpr Slice kOutput{Space::output, 0, 0, 4};

std::vector<Problem> all_reduce_of_two() {
  std::vector<Problem> problems(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    problems[rank].collective = Collective::all_reduce;
    problems[rank].rank = rank;
    problems[rank].size = 2;
    problems[rank].count = 4;
  }
  return problems;
}

// What is said in the first of some orders in which something goes wrong; empty if nothing does.
std::string complaint(const std::vector<Schedule>& schedules, bool in_place = false) {
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const RunOptions options{in_place, seed % 2 == 0, seed % 4 < 2, seed};
    const std::string error = Interpreter(all_reduce_of_two(), schedules, options).run();
    if (!error.empty()) return error;
  }
  return "";
}

void expect_complaint(const std::string& what, const std::vector<Schedule>& schedules, bool in_place = false) {
  EXPECT_NE(complaint(schedules, in_place).find(what), std::string::npos) << complaint(schedules, in_place);
}

std::vector<Schedule> two() { return {Schedule(0, 2), Schedule(1, 2)}; }

// Each rank folds the inputs of both.
void fold_both(Schedule* schedule, bool says_so) {
  const Source sources[] = {{0, kInput}, {1, kInput}};
  const StepIndex folded = schedule->get_reduce(sources, kOutput, true);
  if (says_so) schedule->notify(kDone, {folded});
  if (says_so) schedule->await(1 - schedule->rank(), kDone);
}

TEST(Interpreter, AcceptsWhatIsRight) {
  std::vector<Schedule> schedules = two();
  for (Schedule& schedule : schedules) fold_both(&schedule, true);
  EXPECT_EQ(complaint(schedules), "");
}

TEST(Interpreter, NoticesReadersOfMemoryThatIsGoneOrReplaced) {
  std::vector<Schedule> schedules = two();
  for (Schedule& schedule : schedules) fold_both(&schedule, false);
  EXPECT_NE(complaint(schedules), "");

  schedules = two();
  for (Schedule& schedule : schedules) fold_both(&schedule, true);
  EXPECT_NE(complaint(schedules, /*in_place=*/true), "");
}

TEST(Interpreter, NoticesReadsBeforeTheMark) {
  std::vector<Schedule> schedules = two();
  const StepIndex copied = schedules[0].copy(kInput, kOutput);
  schedules[0].notify(1, {copied});
  schedules[0].await(1, kDone);
  const StepIndex read = schedules[1].get(0, kOutput, kOutput);
  schedules[1].notify(kDone, {read});
  EXPECT_NE(complaint(schedules), "");
}

TEST(Interpreter, NoticesDeadlocks) {
  // Both send before they receive, which is over only where sends do not wait.
  std::vector<Schedule> schedules = two();
  for (Schedule& schedule : schedules) {
    const StepIndex sent = schedule.send(1 - schedule.rank(), kInput);
    schedule.receive(1 - schedule.rank(), kOutput, {sent});
  }
  expect_complaint("deadlock", schedules);
}

TEST(Interpreter, NoticesMessagesThatDoNotMatch) {
  std::vector<Schedule> schedules = two();
  schedules[0].send(1, kInput);
  schedules[1].receive(0, {Space::output, 0, 0, 3});
  expect_complaint("another length", schedules);
}

TEST(Interpreter, NoticesRacesInsideARank) {
  std::vector<Schedule> schedules = two();
  schedules[0].copy(kInput, kOutput);
  const Source source{0, kInput};
  schedules[0].reduce({&source, 1}, kOutput, true);
  expect_complaint("a write races", schedules);
}

TEST(Interpreter, NoticesFoldsOfWhatIsFinished) {
  std::vector<Schedule> schedules = two();
  const Source input{0, kInput};
  const Source output{0, kOutput};
  const StepIndex once = schedules[0].reduce({&input, 1}, kOutput, true);
  schedules[0].reduce({&output, 1}, kOutput, true, {once});
  expect_complaint("a finished element is folded", schedules);
}

}  // namespace
}  // namespace regroup::testing
