// SPDX-License-Identifier: Apache-2.0
// All planners of the catalogue, put to the proof.
#include "verify/suite.h"

#include <gtest/gtest.h>

namespace regroup::verify {
namespace {

std::string text_of(const SuiteResult& result) {
  std::string text;
  for (const std::string& failure : result.failures) text += failure + '\n';
  return text;
}

TEST(Suite, ProvesTheCatalogue) {
  const SuiteResult result = run_suite(1, 17, {.algorithms = algorithms::catalogue()});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.failed, 0u) << text_of(result);
  EXPECT_EQ(result.proved, result.sets);
  EXPECT_GT(result.sets, 1000u);
}

TEST(Suite, ProvesALargeGroup) {
  const SuiteResult result = run_suite(33, 33, {.algorithms = algorithms::catalogue()});
  EXPECT_EQ(result.failed, 0u) << text_of(result);
}

TEST(Suite, KeepsItsDeadline) {
  SuiteOptions options{.algorithms = algorithms::catalogue()};
  options.deadline = base::Clock::now();
  const SuiteResult result = run_suite(2, 3, options);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.sets, 0u);
}

TEST(Suite, ReportsAWrongPlanner) {
  algorithms::Algorithm wrong = *algorithms::find(Collective::all_reduce, "ring");
  wrong.plan = [](const plan::Problem& problem) { return plan::Schedule(problem.rank, problem.size); };
  size_t calls = 0;
  SuiteOptions options{.algorithms = {&wrong, 1}, .batches = 0, .most_failures = 3};
  options.progress = [&calls](const SuiteResult&) { ++calls; };
  const SuiteResult result = run_suite(1, 2, options);
  EXPECT_GT(result.failed, 0u);
  EXPECT_EQ(result.failures.size(), 3u);
  EXPECT_EQ(calls, 4u);  // two sizes, each with its batches
}

}  // namespace
}  // namespace regroup::verify
