// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include <gtest/gtest.h>

#include "plan/partition.h"
#include "plan/topology.h"

namespace regroup::plan {
namespace {

TEST(Schedule, NumbersMessagesPerPeerAndLeavesOutEmptyOnes) {
  Schedule schedule(0, 3);
  const StepIndex first = schedule.send(1, {Space::input, 0, 0, 4});
  EXPECT_EQ(schedule.send(1, {Space::input, 0, 4, 0}), kNoStep);
  const StepIndex second = schedule.send(1, {Space::input, 0, 4, 4}, {first, kNoStep});
  const StepIndex other = schedule.send(2, {Space::input, 0, 0, 4});
  EXPECT_EQ(schedule.steps()[first].message, 0u);
  EXPECT_EQ(schedule.steps()[second].message, 1u);
  EXPECT_EQ(schedule.steps()[other].message, 0u);
  EXPECT_EQ(schedule.after(schedule.steps()[second]).size(), 1u);
}

TEST(Schedule, ChainsNotifications) {
  Schedule schedule(1, 2);
  const StepIndex first = schedule.notify(1);
  const StepIndex last = schedule.notify(kDone);
  ASSERT_EQ(schedule.after(schedule.steps()[last]).size(), 1u);
  EXPECT_EQ(schedule.after(schedule.steps()[last])[0], first);
  EXPECT_TRUE(schedule.one_sided());
}

TEST(Schedule, AGetFromOneselfIsACopy) {
  Schedule schedule(1, 2);
  const StepIndex step = schedule.get(1, {Space::input, 0, 0, 2}, {Space::output, 0, 0, 2});
  EXPECT_EQ(schedule.steps()[step].kind, StepKind::copy);
  EXPECT_FALSE(schedule.one_sided());
}

TEST(Partition, IsBalancedAndCovers) {
  for (uint64_t total : {0u, 1u, 5u, 16u, 17u}) {
    uint64_t next = 0;
    for (uint64_t part = 0; part < 5; ++part) {
      const Share share = share_of(total, 5, part);
      EXPECT_EQ(share.offset, next);
      next += share.count;
    }
    EXPECT_EQ(next, total);
  }
}

TEST(Topology, NumbersHostsByAppearance) {
  const Topology topology({7, 3, 7, 3, 9});
  EXPECT_EQ(topology.hosts(), 3u);
  EXPECT_EQ(topology.host_of(2), 0u);
  EXPECT_EQ(topology.local_rank(3), 1u);
  EXPECT_FALSE(topology.even());
  EXPECT_TRUE(Topology::uniform(2, 3).even());
}

}  // namespace
}  // namespace regroup::plan
