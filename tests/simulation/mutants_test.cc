// SPDX-License-Identifier: Apache-2.0
// The verifier and the simulation, each against the other, on damaged schedules: what the verifier lets through has to
// run right, and of what it refuses the simulation finds most. Not all: some orders that go wrong are rare, and some
// can't happen with this executor, which runs the steps of one rank that are ready one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/hash.h"
#include "simulation/scenario.h"
#include "simulation/seeds.h"
#include "verify/mutate.h"
#include "verify/suite.h"

namespace regroup::simulation {
namespace {

using algorithms::Algorithm;
using verify::BatchMember;
using verify::Mutation;

constexpr uint64_t kCaseStride = 5;
constexpr uint64_t kOrders = 8;  // runs of a mutant
// Refused ones are run only if they stay inside their buffers.
constexpr Mutation kHarmless[] = {Mutation::drop_step, Mutation::drop_dependency, Mutation::change_mark};

struct Tally {
  uint64_t let_through = 0, went_wrong = 0;
  uint64_t refused = 0, found = 0;
};

// Empty, or what went wrong in one of several orders.
std::string failure_of(const BatchMember& call, const std::vector<plan::Schedule>& schedules, uint64_t seed) {
  for (uint64_t order = 0; order < kOrders; ++order) {
    Scenario scenario = make_scenario(call, base::mix(seed, order));
    std::mt19937_64 random(base::mix(seed, order));
    scenario.operations.clear();
    scenario.operations.push_back(make_operation({&call, 1}, schedules, random));
    RunResult result = run_operations(scenario.options, scenario.operations);
    if (!result.failure.empty()) return scenario.text + result.failure;
  }
  return {};
}

void try_mutants(const BatchMember& call, std::mt19937_64& random, Tally& tally) {
  const auto& problems = call.test_case.problems;
  const auto schedules = verify::plan_all(*call.algorithm, call.test_case);
  for (int kind = 0; kind < verify::kMutations; ++kind) {
    const auto mutation = static_cast<Mutation>(kind);
    const auto mutant = verify::mutate(schedules, mutation, random);
    if (!mutant) continue;
    const bool refused = !verify::verify(verify::expectation(*call.algorithm, problems, call.in_place),
                                         mutant->schedules, verify::expectation(*call.algorithm))
                              .empty();
    if (refused && std::find(std::begin(kHarmless), std::end(kHarmless), mutation) == std::end(kHarmless)) continue;
    const std::string failure = failure_of(call, mutant->schedules, random());
    ++(refused ? tally.refused : tally.let_through);
    if (failure.empty()) continue;
    ++(refused ? tally.found : tally.went_wrong);
    EXPECT_TRUE(refused) << mutant->text << "\n" << failure;
  }
}

TEST(Mutants, WhatTheVerifierLetsThroughRunsRight) {
  const Seeds seeds = seeds_of_environment(1);
  Tally tally;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    std::mt19937_64 random(seed);
    uint64_t cases = seed;
    for (const Algorithm& algorithm : algorithms::catalogue()) {
      for (const Rank size : {2u, 3u, 5u, 8u}) {
        verify::for_each_case(algorithm, size, [&](const verify::Case& each) {
          const bool in_place = algorithm.in_place && each.in_place_possible && random() % 2 == 0;
          const BatchMember call{&algorithm, each, in_place};
          if (++cases % kCaseStride == 0 && runnable(call)) try_mutants(call, random, tally);
        });
      }
    }
    ASSERT_EQ(tally.went_wrong, 0u) << repeat_command(seed);
  }
  std::printf("%llu mutants let through, all run right; %llu refused, %llu of them found by running\n",
              static_cast<unsigned long long>(tally.let_through), static_cast<unsigned long long>(tally.refused),
              static_cast<unsigned long long>(tally.found));
  EXPECT_GT(tally.found * 10, tally.refused * 8);
}

}  // namespace
}  // namespace regroup::simulation
