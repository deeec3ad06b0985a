// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.h"

#include <gtest/gtest.h>

#include <vector>

#include "algorithms/catalogue.h"
#include "plan/problem.h"

namespace regroup::plan {
namespace {

constexpr CostModel kModel{.memory = {0, 1},
                           .reads = {10, 2},
                           .mapped_reads = {1, 1},
                           .inside_host = {{10, 2}, 0, 0},
                           .loopback = {{50, 0}, 1, 2},
                           .network = {{100, 3}, 0, 0},
                           .mark_us = 5,
                           .step_us = 0,
                           .switch_us = 7,
                           .cache_bytes = 1e9,
                           .beyond_cache = 3,
                           .team_us = 3,
                           .team_from = 50,
                           .bandwidth = 6};

std::vector<Schedule> one_message(uint64_t count) {
  Schedule from(0, 2), to(1, 2);
  from.send(1, {Space::input, 0, 0, count});
  to.receive(0, {Space::output, 0, 0, count});
  return {from, to};
}

TEST(Cost, OfAMessageIsLatencyAndBytes) {
  const Topology hosts({0, 1}), host({0, 0});
  EXPECT_DOUBLE_EQ(predict(one_message(4), hosts, 8, false, kModel).us, 100 + 3 * 32);
  EXPECT_DOUBLE_EQ(predict(one_message(4), host, 8, false, kModel).us, 10 + 2 * 32);
  const Cost cost = predict(one_message(4), host, 8, true, kModel);
  EXPECT_DOUBLE_EQ(cost.us, 50 + 1 + 1 + 2 * 32);  // both sides work on the bytes at the same time
  EXPECT_EQ(cost.total_sent_bytes, 32u);
  EXPECT_EQ(cost.total_read_bytes, 0u);
  EXPECT_TRUE(cost.complete);
}

TEST(Cost, OfReadsWaitsForMarks) {
  Schedule owner(0, 2), reader(1, 2);
  owner.notify(1, {owner.copy({Space::input, 0, 0, 4}, {Space::output, 0, 0, 4})});
  const StepIndex seen = reader.await(0, 1);
  reader.get(0, {Space::output, 0, 0, 4}, {Space::output, 0, 0, 4}, {seen});
  const std::vector<Schedule> schedules = {owner, reader};
  const Cost cost = predict(schedules, Topology::one_host(2), 1, false, kModel);
  EXPECT_DOUBLE_EQ(cost.us, 4 + 5 + 10 + 2 * 4);
  EXPECT_EQ(cost.read_bytes, 4u);
}

TEST(Cost, OfReadsGoesByTheKindOfMemory) {
  Schedule owner(0, 2), reader(1, 2);
  reader.get(0, {Space::input, 0, 0, 4}, {Space::output, 0, 0, 4});
  const std::vector<Schedule> schedules = {owner, reader};
  CostModel model = kModel;
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(2), 1, false, model).us, 10 + 2 * 4);
  model.mapped = true;
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(2), 1, false, model).us, 1 + 1 * 4);
}

TEST(Cost, OfRanksThatShareACoreAddsUp) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < 4; ++rank) {
    schedules.emplace_back(rank, 4);
    schedules.back().copy({Space::input, 0, 0, 100}, {Space::output, 0, 0, 100});
  }
  CostModel model = kModel;
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(4), 1, false, model).us, 100);
  model.cores = 4;
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(4), 1, false, model).us, 100);
  model.switch_us = 0;
  model.cores = 2;
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(4), 1, false, model).us, 200);
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::uniform(2, 2), 1, false, model).us, 100);
  model.cores = 1;
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(4), 1, false, model).us, 400);
  model.switch_us = 7;  // each begins its call, then each copies
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(4), 1, false, model).us, 400 + 7 * 7);
}

TEST(Cost, OfBytesBeyondTheCachesIsHigher) {
  Schedule alone(0, 1);
  alone.copy({Space::input, 0, 0, 100}, {Space::output, 0, 0, 100});
  CostModel model = kModel;
  model.cache_bytes = 100;
  EXPECT_DOUBLE_EQ(predict({&alone, 1}, Topology::one_host(1), 1, false, model).us, 100);
  model.cache_bytes = 50;  // half of them leave: three times the price
  EXPECT_DOUBLE_EQ(predict({&alone, 1}, Topology::one_host(1), 1, false, model).us, 200);
}

TEST(Cost, OfThreadsIsBoundedByCoresAndBandwidth) {
  CostModel model = kModel;
  EXPECT_EQ(team_gain(model, 1), 1);
  model.threads = 4;
  EXPECT_EQ(team_gain(model, 1), 4);
  EXPECT_EQ(team_gain(model, 2), 3);   // half of what the memory gives to six
  EXPECT_EQ(team_gain(model, 12), 1);  // never slower than one
  model.cores = 4;
  EXPECT_EQ(team_gain(model, 1), 4);
  EXPECT_EQ(team_gain(model, 2), 2);
  EXPECT_EQ(team_gain(model, 3), 1);
  EXPECT_EQ(team_gain(model, 8), 1);
  model.cores = 64;
  model.threads = 16;
  EXPECT_EQ(team_gain(model, 1), 6);
}

TEST(Cost, OfThreadsCountsForLargeStepsAlone) {
  CostModel model = kModel;
  model.threads = 4;
  const auto cost_of = [&](uint64_t bytes) {
    Schedule alone(0, 1);
    alone.copy({Space::input, 0, 0, bytes}, {Space::output, 0, 0, bytes});
    return predict({&alone, 1}, Topology::one_host(1), 1, false, model).us;
  };
  EXPECT_DOUBLE_EQ(cost_of(49), 49);
  EXPECT_DOUBLE_EQ(cost_of(100), 3 + 100.0 / 4);
  Schedule owner(0, 2), reader(1, 2);
  reader.get(0, {Space::input, 0, 0, 100}, {Space::output, 0, 0, 100});
  const std::vector<Schedule> schedules = {owner, reader};
  EXPECT_DOUBLE_EQ(predict(schedules, Topology::one_host(2), 1, false, model).us, 3 + 10 + 2 * 100.0 / 3);
  EXPECT_DOUBLE_EQ(predict(one_message(100), Topology::one_host(2), 1, false, model).us, 10 + 2 * 100);
}

TEST(Cost, SeesSchedulesThatWaitForEver) {
  Schedule a(0, 2), b(1, 2);
  a.receive(1, {Space::output, 0, 0, 1});
  b.receive(0, {Space::output, 0, 0, 1});
  const std::vector<Schedule> schedules = {a, b};
  EXPECT_FALSE(predict(schedules, Topology::one_host(2), 1, false, kModel).complete);
}

TEST(Cost, OfMoreBytesIsGreater) {
  for (const algorithms::Algorithm& algorithm : algorithms::catalogue()) {
    if (algorithm.collective != Collective::all_reduce) continue;
    double before = 0;
    for (const uint64_t count : {uint64_t{4}, uint64_t{4096}, uint64_t{1} << 20}) {
      std::vector<Schedule> schedules;
      Problem problem;
      problem.collective = Collective::all_reduce;
      problem.size = 4;
      problem.count = count;
      problem.topology = Topology::one_host(4);
      if (!algorithm.fits(problem)) break;
      for (Rank rank = 0; rank < 4; ++rank) schedules.push_back(algorithm.plan(problem.seen_by(rank)));
      const Cost cost = predict(schedules, problem.topology, 4, false);
      EXPECT_TRUE(cost.complete) << algorithm.name;
      EXPECT_GT(cost.us, before) << algorithm.name;
      before = cost.us;
    }
  }
}

}  // namespace
}  // namespace regroup::plan
