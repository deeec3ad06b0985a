// SPDX-License-Identifier: Apache-2.0
// Groups that outlive their members, over many seeds; and the same with faults planted into the protocol, each of which
// has to be found within the usual number of seeds.
#include <gtest/gtest.h>

#include <cstdio>

#include "simulation/members.h"
#include "simulation/seeds.h"

namespace regroup::simulation {
namespace {

constexpr uint64_t kRuns = 500;  // of each kind of trouble

MembersResult all_hold(Trouble trouble) {
  const Seeds seeds = seeds_of_environment(kRuns);
  MembersResult sum;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const MembersResult result = run_members(seed, trouble);
    EXPECT_EQ(result.failure, "") << result.text << "\n" << repeat_command(seed);
    sum.messages += result.messages;
    sum.decisions += result.decisions;
    sum.kills += result.kills;
    sum.reborn += result.reborn;
    sum.no_quorum += result.no_quorum;
    sum.left_behind += result.left_behind;
    if (testing::Test::HasFailure()) break;
  }
  const auto shown = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "  %llu runs: %llu messages, %llu decisions, %llu kills, %llu next lives, %llu without quorum, %llu left\n",
      shown(seeds.count), shown(sum.messages), shown(sum.decisions), shown(sum.kills), shown(sum.reborn),
      shown(sum.no_quorum), shown(sum.left_behind));
  return sum;
}

TEST(RebirthSimulation, NothingHappens) { EXPECT_GT(all_hold(Trouble::none).reborn, 0u); }

TEST(RebirthSimulation, AllThatSurviveKillsFinish) { EXPECT_GT(all_hold(Trouble::kills).reborn, 0u); }

TEST(RebirthSimulation, StoppedMembersAreLeftBehind) { EXPECT_GT(all_hold(Trouble::stops).reborn, 0u); }

TEST(RebirthSimulation, OneSideOfACutGoesOn) { EXPECT_GT(all_hold(Trouble::partitions).reborn, 0u); }

void is_found(Plant plant) {
  uint64_t runs = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    for (const Trouble trouble : {Trouble::kills, Trouble::stops, Trouble::partitions}) {
      ++runs;
      const MembersResult result = run_members(seed, trouble, plant);
      if (result.failure.empty()) continue;
      std::printf("  found in run %llu: %s", static_cast<unsigned long long>(runs), result.failure.c_str());
      return;
    }
  }
  ADD_FAILURE() << "not found in " << runs << " runs";
}

TEST(PlantedProtocolFaults, AForgottenPromise) { is_found(Plant::forgets_promise); }
TEST(PlantedProtocolFaults, ALeaderThatDoesNotAsk) { is_found(Plant::does_not_ask); }
TEST(PlantedProtocolFaults, WhoIsCutOffIsTakenForDead) { is_found(Plant::unreachable_is_dead); }
TEST(PlantedProtocolFaults, HalfIsEnough) { is_found(Plant::half_is_enough); }
TEST(PlantedProtocolFaults, NobodyAsksWhetherAllHaveMet) { is_found(Plant::no_second_agreement); }
TEST(PlantedProtocolFaults, ALateContributionChangesTheProposal) { is_found(Plant::late_contribution); }
TEST(PlantedProtocolFaults, APromiseDoesNotTellWhatWasAccepted) { is_found(Plant::forgets_acceptance); }

}  // namespace
}  // namespace regroup::simulation
