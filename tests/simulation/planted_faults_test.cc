// SPDX-License-Identifier: Apache-2.0
// The simulation against faults planted on purpose: it has to find each of them within its usual number of seeds.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "base/hash.h"
#include "simulation/scenario.h"
#include "simulation/seeds.h"

namespace regroup::simulation {
namespace {

using algorithms::Algorithm;
using plan::Schedule;
using plan::Step;
using plan::StepKind;
using transport::sim::Breach;
using verify::BatchMember;

// Damages one rank's schedule.
using Damage = std::function<void(Schedule& schedule)>;

constexpr uint64_t kMostRuns = 500;

// How many runs it takes until something is noticed; 0: nothing was in `kMostRuns`.
uint64_t runs_until_found(Collective collective, std::string_view name, const Damage& damage,
                          Breach breach = Breach::none) {
  const Algorithm* algorithm = algorithms::find(collective, name);
  uint64_t runs = 0, found = 0;
  while (found == 0 && runs < kMostRuns) {
    for (const Rank size : {2u, 3u, 4u, 5u, 8u}) {
      verify::for_each_case(*algorithm, size, [&](const verify::Case& each) {
        const BatchMember call{algorithm, each, false};
        if (found != 0 || runs >= kMostRuns || !runnable(call)) return;
        const uint64_t seed = ++runs;
        Scenario scenario = make_scenario(call, seed);
        scenario.options.breach = breach;
        std::vector<Schedule> schedules = verify::plan_all(*algorithm, each);
        if (damage) {
          for (Schedule& schedule : schedules) damage(schedule);
        }
        std::mt19937_64 random(seed);
        scenario.operations.clear();
        scenario.operations.push_back(make_operation({&call, 1}, std::move(schedules), random));
        if (!run_operations(scenario.options, scenario.operations).failure.empty()) found = runs;
      });
    }
  }
  std::printf("  %s %.*s: found in run %llu\n", std::string(regroup::name(collective)).c_str(),
              static_cast<int>(name.size()), name.data(), static_cast<unsigned long long>(found));
  return found;
}

Damage without_last_awaits() {
  return [](Schedule& schedule) {
    for (Step& step : schedule.parts().steps) {
      if (step.kind == StepKind::await && step.mark == plan::kDone) step.mark = 0;  // true on arrival
    }
  };
}

Damage without_dependencies(StepKind kind) {
  return [kind](Schedule& schedule) {
    for (Step& step : schedule.parts().steps) {
      if (step.kind == kind) step.after.count = 0;
    }
  };
}

struct Target {
  Collective collective;
  std::string_view name;
};

TEST(PlantedFaults, NoneIsFoundWhereThereIsNone) {
  EXPECT_EQ(runs_until_found(Collective::all_reduce, "direct", {}), 0u);
  EXPECT_EQ(runs_until_found(Collective::all_reduce, "ring", {}), 0u);
}

TEST(PlantedFaults, ARankThatReturnsWhileOthersReadItsMemory) {
  for (const auto& [collective, name] : std::initializer_list<Target>{{Collective::all_reduce, "direct"},
                                                                      {Collective::all_gather, "direct"},
                                                                      {Collective::all_to_all, "direct"},
                                                                      {Collective::broadcast, "direct"},
                                                                      {Collective::scatter, "direct"}}) {
    EXPECT_GT(runs_until_found(collective, name, without_last_awaits()), 0u) << regroup::name(collective);
  }
}

TEST(PlantedFaults, StepsThatDoNotWait) {
  EXPECT_GT(runs_until_found(Collective::all_reduce, "direct", without_dependencies(StepKind::get)), 0u);
  EXPECT_GT(runs_until_found(Collective::all_reduce, "direct", without_dependencies(StepKind::notify)), 0u);
  EXPECT_GT(runs_until_found(Collective::all_reduce, "ring", without_dependencies(StepKind::send)), 0u);
  EXPECT_GT(runs_until_found(Collective::all_reduce, "rabenseifner", without_dependencies(StepKind::send)), 0u);
  EXPECT_GT(runs_until_found(Collective::broadcast, "binomial", without_dependencies(StepKind::send)), 0u);
  EXPECT_GT(runs_until_found(Collective::all_to_all, "bruck", without_dependencies(StepKind::copy)), 0u);
}

TEST(PlantedFaults, MarksThatArriveBeforeWhatWasWritten) {
  EXPECT_GT(runs_until_found(Collective::all_reduce, "direct", {}, Breach::marks_before_writes), 0u);
  EXPECT_GT(runs_until_found(Collective::reduce, "direct_shares", {}, Breach::marks_before_writes), 0u);
}

TEST(PlantedFaults, SendsThatAreCalledDoneTooEarly) {
  EXPECT_GT(runs_until_found(Collective::all_gather, "ring", {}, Breach::early_done), 0u);
  EXPECT_GT(runs_until_found(Collective::broadcast, "chain", {}, Breach::early_done), 0u);
}

}  // namespace
}  // namespace regroup::simulation
