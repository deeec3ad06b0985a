// SPDX-License-Identifier: Apache-2.0
// Which seeds a test runs: the environment may ask for others.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace regroup::simulation {

struct Seeds {
  uint64_t first = 1;
  uint64_t count = 1;
};

// REGROUP_TEST_SEED=n: seed n alone; REGROUP_TEST_SEEDS=n: so many, from REGROUP_TEST_SEED or 1 on.
inline Seeds seeds_of_environment(uint64_t usual) {
  const char* first = std::getenv("REGROUP_TEST_SEED");
  const char* count = std::getenv("REGROUP_TEST_SEEDS");
  Seeds seeds{1, usual};
  if (first != nullptr) seeds = {std::strtoull(first, nullptr, 10), 1};
  if (count != nullptr) seeds.count = std::strtoull(count, nullptr, 10);
  return seeds;
}

// The command that runs the current test with this seed again.
inline std::string repeat_command(uint64_t seed) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return "repeat with: REGROUP_TEST_SEED=" + std::to_string(seed) +
         " simulation_tests --gtest_filter=" + test->test_suite_name() + "." + test->name();
}

}  // namespace regroup::simulation
