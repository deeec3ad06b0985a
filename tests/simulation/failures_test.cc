// SPDX-License-Identifier: Apache-2.0
// Operations that must not succeed: ranks that call different things, and ranks that take their memory back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/hash.h"
#include "simulation/scenario.h"
#include "simulation/seeds.h"

namespace regroup::simulation {
namespace {

using algorithms::Algorithm;
using transport::sim::Breach;
using transport::sim::SimNetwork;
using verify::BatchMember;
using Verdict = Driver::Verdict;

// The cases of an algorithm in which every rank has something to send to every other.
std::vector<verify::Case> full_cases(const Algorithm& algorithm, Rank size) {
  std::vector<verify::Case> cases;
  verify::for_each_case(algorithm, size, [&](const verify::Case& each) {
    const bool full = std::all_of(each.problems.begin(), each.problems.end(), [&](const plan::Problem& problem) {
      return std::find(problem.counts.begin(), problem.counts.end(), 0u) == problem.counts.end() &&
             (problem.count >= size || !problem.counts.empty() || problem.collective == Collective::barrier);
    });
    if (full && runnable({&algorithm, each, false})) cases.push_back(each);
  });
  return cases;
}

// Another call by rank `odd`, found by messages alone. Whoever meets the odd one says so; others wait.
TEST(Failures, AMessageOfAnotherCallIsAMismatch) {
  uint64_t seed = 0, mismatches = 0;
  for (const Algorithm& algorithm : algorithms::catalogue()) {
    if (algorithm.reads != Algorithm::Reads::none) continue;
    for (const Rank size : {2u, 3u, 5u, 8u}) {
      for (const verify::Case& each : full_cases(algorithm, size)) {
        Scenario scenario = make_scenario({&algorithm, each, false}, ++seed);
        scenario.options.memory_domain.clear();
        Group group(scenario.options, scenario.operations);
        const Rank odd = static_cast<Rank>(seed % size);
        transport::Signature other = scenario.operations[0].signature;
        ++other.count;
        group.driver(odd).set_signature(other);
        group.run();
        EXPECT_EQ(group.wrongs(), "") << scenario.text;
        uint64_t found = 0;
        for (Rank rank = 0; rank < size; ++rank) {
          const Driver& driver = group.driver(rank);
          if (driver.verdict() != Verdict::mismatched) continue;
          ++found;
          EXPECT_TRUE(rank == odd || driver.message().peer == odd) << scenario.text;
          const bool mine_is_odd = rank == odd;
          EXPECT_EQ(driver.message().other_fingerprint == transport::fingerprint(other), !mine_is_odd);
        }
        EXPECT_GT(found, 0u) << scenario.text << group.describe();
        mismatches += found;
      }
    }
  }
  std::printf("%llu runs, %llu ranks found a mismatch\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(mismatches));
}

// The same where ranks see each other's calls: every rank learns before data moves, and who is the odd one.
TEST(Failures, AnotherCallIsAConflictOnArrival) {
  uint64_t seed = 0;
  for (const Algorithm& algorithm : algorithms::catalogue()) {
    if (algorithm.reads != Algorithm::Reads::everywhere) continue;
    for (const Rank size : {3u, 5u, 8u}) {
      for (const verify::Case& each : full_cases(algorithm, size)) {
        Scenario scenario = make_scenario({&algorithm, each, false}, ++seed);
        Group group(scenario.options, scenario.operations);
        const Rank odd = static_cast<Rank>(seed % size);
        transport::Signature other = scenario.operations[0].signature;
        ++other.count;
        group.driver(odd).set_signature(other);
        EXPECT_EQ(group.run(), SimNetwork::Ending::finished);
        EXPECT_EQ(group.wrongs(), "") << scenario.text;
        for (Rank rank = 0; rank < size; ++rank) {
          EXPECT_EQ(group.driver(rank).verdict(), Verdict::conflict) << scenario.text;
          EXPECT_EQ(group.driver(rank).conflict().differ, std::vector<Rank>{odd}) << scenario.text;
        }
      }
    }
  }
  EXPECT_GT(seed, 50u);
}

// One rank means to give another more than that one means to take.
TEST(Failures, SizesThatDoNotFitAreFound) {
  const auto catalogue = algorithms::catalogue();
  uint64_t seed = 0, shown = 0;
  for (const Algorithm& algorithm : catalogue) {
    if (algorithm.collective != Collective::all_to_all) continue;
    for (const Rank size : {2u, 4u, 5u}) {
      verify::for_each_case(algorithm, size, [&](const verify::Case& each) {
        if (each.problems[0].equal_counts || !runnable({&algorithm, each, false})) return;
        Scenario scenario = make_scenario({&algorithm, each, false}, ++seed);
        const Rank giver = static_cast<Rank>(seed % size), taker = (giver + 1) % size;
        BatchMember call{&algorithm, each, false};
        if (call.test_case.problems[giver].counts[taker] == 0) return;  // both leave out a message of nothing
        ++call.test_case.problems[giver].counts[taker];
        std::mt19937_64 random(seed);
        const bool shows = scenario.operations[0].shown_bytes.has_value();
        scenario.operations.clear();
        scenario.operations.push_back(make_operation(call, random));
        if (shows) show_pairs(scenario.operations[0], random);
        shown += shows ? 1 : 0;
        Group group(scenario.options, scenario.operations);
        group.run();
        EXPECT_EQ(group.wrongs(), "") << scenario.text;
        const uint64_t width = size_of(scenario.operations[0].members[0].type);
        const Driver& driver = group.driver(taker);
        if (group.network().at(taker).one_sided(giver)) {
          ASSERT_EQ(driver.verdict(), Verdict::conflict) << scenario.text << group.describe();
          EXPECT_TRUE(driver.conflict().sizes);
          EXPECT_EQ(driver.conflict().gives, driver.conflict().takes + width);
        } else {
          ASSERT_EQ(driver.verdict(), Verdict::mismatched) << scenario.text << group.describe();
          EXPECT_EQ(driver.message().peer, giver);
          EXPECT_EQ(driver.message().other_fingerprint, driver.message().fingerprint);
          EXPECT_EQ(driver.message().other_bytes, driver.message().bytes + width);
        }
      });
    }
  }
  EXPECT_GT(seed, 20u);
  EXPECT_GT(shown, 5u);
}

TEST(Failures, AnEagerCallOfAnotherKindIsAConflictEverywhere) {
  uint64_t runs = 0;
  for (uint64_t seed = 1; runs < 50; ++seed) {
    Scenario scenario = make_scenario(seed);
    if (!scenario.operations[0].eager || scenario.options.size < 2) continue;
    ++runs;
    Group group(scenario.options, scenario.operations);
    transport::Signature other = scenario.operations[0].signature;
    ++other.count;
    group.driver(static_cast<Rank>(seed % group.size())).set_signature(other);
    EXPECT_EQ(group.run(), SimNetwork::Ending::finished);
    for (Rank rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ(group.driver(rank).verdict(), Verdict::conflict) << scenario.text << repeat_command(seed);
    }
  }
}

struct Withdrawals {
  uint64_t told = 0;   // ranks that noticed
  uint64_t wrong = 0;  // runs in which data counted that must not
  std::string first;
};

// In each run one rank takes its memory back at some time: between two turns, or just when another has read it.
Withdrawals withdraw(Breach breach, uint64_t first, uint64_t runs) {
  Withdrawals result;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    std::mt19937_64 random(seed);
    Scenario scenario = make_scenario(seed);
    scenario.options.breach = breach;
    if (scenario.options.size < 2) continue;
    const Rank leaver = static_cast<Rank>(random() % scenario.options.size);
    uint64_t turns_left = 1 + random() % 12, reads_left = 1 + random() % 6;
    const bool after_read = random() % 2 == 0;
    Group* the_group = nullptr;
    scenario.options.after_read = [&](Rank, Rank owner) {
      if (after_read && owner == leaver && --reads_left == 0) the_group->driver(leaver).fail();
    };
    Group group(scenario.options, scenario.operations);
    the_group = &group;
    group.before_turn = [&](Rank rank) {
      if (!after_read && rank == leaver && --turns_left == 0) group.driver(leaver).fail();
    };
    group.run();
    if (group.driver(leaver).verdict() == Verdict::done) continue;  // too late
    std::string wrongs = group.wrongs();
    for (Rank rank = 0; rank < group.size(); ++rank) {
      const Driver& driver = group.driver(rank);
      if (driver.verdict() == Verdict::withdrawn) {
        ++result.told;
        const Verdict cause = group.driver(driver.lost_rank()).verdict();
        if (driver.lost_rank() != leaver && cause != Verdict::withdrawn) wrongs += "the wrong rank is blamed\n";
      } else if (driver.verdict() != Verdict::none && driver.verdict() != Verdict::done) {
        wrongs += "rank " + std::to_string(rank) + " ended otherwise\n";
      }
    }
    if (wrongs.empty()) continue;
    ++result.wrong;
    if (result.first.empty()) result.first = scenario.text + wrongs + repeat_command(seed);
  }
  return result;
}

TEST(Failures, WhatAWithdrawnRankHeldNeverCounts) {
  const Seeds seeds = seeds_of_environment(600);
  const Withdrawals result = withdraw(Breach::none, seeds.first, seeds.count);
  EXPECT_EQ(result.wrong, 0u) << result.first;
  EXPECT_GT(result.told, seeds.count / 20);
  std::printf("%llu ranks noticed\n", static_cast<unsigned long long>(result.told));
}

// A rank that dies is named by those who read its memory; the others wait, and nothing comes out wrong.
TEST(Failures, ADeadRankIsNamed) {
  uint64_t named = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Scenario scenario = make_scenario(seed);
    if (scenario.options.size < 2) continue;
    const Rank victim = static_cast<Rank>(seed % scenario.options.size);
    uint64_t reads_left = 1 + seed % 5;
    Group* the_group = nullptr;
    scenario.options.after_read = [&](Rank, Rank owner) {
      if (owner == victim && --reads_left == 0) the_group->network().kill(victim);
    };
    Group group(scenario.options, scenario.operations);
    the_group = &group;
    group.run();
    EXPECT_EQ(group.wrongs(), "") << scenario.text;
    for (Rank rank = 0; rank < group.size(); ++rank) {
      const Driver& driver = group.driver(rank);
      if (driver.verdict() != Verdict::lost) continue;
      ++named;
      EXPECT_EQ(driver.lost_rank(), victim) << scenario.text << "seed " << seed;
    }
  }
  EXPECT_GT(named, 20u);
}

TEST(PlantedFaults, AWithdrawalThatIsSeenTooLate) { EXPECT_GT(withdraw(Breach::late_withdrawal, 1, 600).wrong, 0u); }

}  // namespace
}  // namespace regroup::simulation
