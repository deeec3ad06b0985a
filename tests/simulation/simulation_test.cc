// SPDX-License-Identifier: Apache-2.0
// Every algorithm, by the executor that ships, over the simulated network: whatever the order in which things happen,
// what comes out is right.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "base/hash.h"
#include "simulation/scenario.h"
#include "simulation/seeds.h"

namespace regroup::simulation {
namespace {

using algorithms::Algorithm;
using verify::BatchMember;
using verify::Case;

constexpr Rank kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17};
class EveryAlgorithm : public testing::TestWithParam<Collective> {};

TEST_P(EveryAlgorithm, EveryCaseComesOutRight) {
  const Seeds seeds = seeds_of_environment(1);
  size_t runs = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    for (const Algorithm& algorithm : algorithms::catalogue()) {
      if (algorithm.collective != GetParam()) continue;
      for (const Rank size : kSizes) {
        verify::for_each_case(algorithm, size, [&](const Case& each) {
          BatchMember call{&algorithm, each, false};
          if (HasFatalFailure() || !runnable(call)) return;
          const uint64_t own_seed = base::mix(seed, ++runs);
          call.in_place = algorithm.in_place && each.in_place_possible && own_seed % 2 == 0;
          Scenario scenario = make_scenario(call, own_seed);
          const RunResult result = run_operations(scenario.options, scenario.operations);
          ASSERT_EQ(result.failure, "") << scenario.text << repeat_command(seed);
        });
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
  std::printf("%zu runs\n", runs);
}

INSTANTIATE_TEST_SUITE_P(Simulation, EveryAlgorithm,
                         testing::Values(Collective::barrier, Collective::broadcast, Collective::reduce,
                                         Collective::all_reduce, Collective::gather, Collective::all_gather,
                                         Collective::scatter, Collective::reduce_scatter, Collective::all_to_all),
                         [](const auto& each) { return std::string(name(each.param)); });

// Operations back to back, batches, and the eager path: fast ranks are in the next operation while slow ones are still
// in the one before.
TEST(Simulation, SequencesComeOutRight) {
  const Seeds seeds = seeds_of_environment(2000);
  size_t operations = 0, eager = 0, batches = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Scenario scenario = make_scenario(seed);
    for (const Operation& operation : scenario.operations) {
      ++operations;
      eager += operation.eager ? 1 : 0;
      batches += operation.members.size() > 1 ? 1 : 0;
    }
    const RunResult result = run_operations(scenario.options, scenario.operations);
    ASSERT_EQ(result.failure, "") << scenario.text << repeat_command(seed);
  }
  std::printf("%llu seeds, %zu operations, of which %zu batches and %zu eager\n",
              static_cast<unsigned long long>(seeds.count), operations, batches, eager);
}

TEST(Simulation, ASeedRunsTheSameWayAgain) {
  const Seeds seeds = seeds_of_environment(50);
  std::set<uint64_t> traces;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Scenario first = make_scenario(seed), second = make_scenario(seed);
    const uint64_t trace = run_operations(first.options, first.operations).trace;
    EXPECT_EQ(run_operations(second.options, second.operations).trace, trace) << repeat_command(seed);
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), seeds.count);
}

}  // namespace
}  // namespace regroup::simulation
