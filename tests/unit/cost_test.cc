// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.h"

#include <gtest/gtest.h>

#include <vector>

#include "algorithms/catalogue.h"
#include "plan/problem.h"

namespace regroup::plan {
namespace {

constexpr CostModel kModel{{0, 1}, {10, 2}, {100, 3}, 5, 0};

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
  EXPECT_DOUBLE_EQ(cost.us, 100 + 3 * 32);
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
