// SPDX-License-Identifier: Apache-2.0
// The threads of a rank by themselves: every piece is done once, whoever takes it, and the end leaves no thread.
#include "executor/team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <thread>

#include "base/fence.h"

namespace regroup::executor {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif

// Of this process; 0 where the kernel does not tell.
int threads_here() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int number = 0;
    if (word == "Threads:" && file >> number) return number;
  }
  return 0;
}

TEST(Team, DoesEveryPieceOnce) {
  for (const unsigned threads : {1u, 2u, 3u, kMostThreads}) {
    Team team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const uint32_t pieces : {0u, 1u, 2u, 3u, 7u, 64u, 1000u}) {
      std::vector<int> times(pieces, 0);
      std::atomic<unsigned> most_lane = 0;
      team.run(pieces, [&](unsigned lane, uint32_t piece) {
        ++times[piece];
        if (lane >= threads) most_lane = lane;
      });
      EXPECT_EQ(times, std::vector<int>(pieces, 1)) << threads << " threads";
      EXPECT_EQ(most_lane, 0u);
    }
  }
}

TEST(Team, GivesEachLaneItsOwnMemory) {
  Team team(3);
  std::vector<uint64_t> sums(3, 0);
  constexpr uint32_t kRounds = 5000, kPieces = 5;
  for (uint32_t round = 0; round < kRounds; ++round) {
    team.run(kPieces, [&](unsigned lane, uint32_t piece) {
      for (int i = 0; i < 20; ++i) base::spin_hint();  // long enough for others to come
      sums[lane] += piece + 1;
    });
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), uint64_t{kRounds} * 15);
}

TEST(Team, CopiesAwkwardSizes) {
  Team team(3);
  const uint64_t sizes[] = {
      0, 1, 63, kTeamPiece, kTeamBlock - 1, kTeamBlock, kTeamBlock + 1, 3 * kTeamPiece - 1, 1'000'003, 1 << 21};
  for (const bool stream : {false, true}) {
    for (const uint64_t bytes : sizes) {
      std::vector<std::byte> from(bytes + 3), to(bytes + 9, std::byte{0xee});
      for (uint64_t i = 0; i < bytes; ++i) from[i + 3] = static_cast<std::byte>(i * 31 + i / 251);
      copy_together(&team, to.data() + 5, from.data() + 3, bytes, stream);
      ASSERT_TRUE(std::equal(from.begin() + 3, from.end(), to.begin() + 5)) << bytes;
      for (const uint64_t outside : {uint64_t{4}, bytes + 5}) EXPECT_EQ(to[outside], std::byte{0xee}) << bytes;
    }
  }
}

// Others take part when there is something to wait for: a piece that only ends when another thread has begun one.
TEST(Team, WakesThoseWhoSleep) {
  Team team(2);
  for (const auto pause : {0ms, 30ms, 30ms}) {
    std::this_thread::sleep_for(pause);
    std::atomic<int> inside = 0;
    team.run(2, [&](unsigned, uint32_t) {
      ++inside;
      const auto until = std::chrono::steady_clock::now() + 10s;
      while (inside < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    });
    EXPECT_EQ(inside, 2);
  }
}

TEST(Team, StartsThreadsOnlyWhenTheyAreNeeded) {
  const int before = threads_here();
  if (before == 0) GTEST_SKIP() << "the number of threads is not to be had";
  const auto nothing = [](unsigned, uint32_t) {};
  for (int time = 0; time < 50; ++time) {
    Team team(4);
    EXPECT_EQ(threads_here(), before);
    team.run(1, nothing);
    EXPECT_EQ(threads_here(), before);
    if (time % 2 == 0) continue;
    team.run(2, nothing);
    EXPECT_EQ(threads_here(), before + 3);
    team.run(2, nothing);
    EXPECT_EQ(threads_here(), before + 3);
  }
  EXPECT_EQ(threads_here(), before);
}

TEST(Team, CostsNothingWhileItSleeps) {
  Team team(4);
  team.run(8, [](unsigned, uint32_t) {});
  std::this_thread::sleep_for(100ms);
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(used() - before, 30ms);
}

TEST(Team, IsOnlyTheCallerInAForkedChild) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  auto team = std::make_unique<Team>(3);
  team->run(8, [](unsigned, uint32_t) {});
  const pid_t child = fork();
  if (child == 0) {
    int done = 0;
    team->run(8, [&](unsigned lane, uint32_t) { done += lane == 0 ? 1 : 100; });
    team.reset();
    _exit(done == 8 ? 0 : 1);
  }
  int how = -1;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  std::atomic<int> done = 0;
  team->run(8, [&](unsigned, uint32_t) { ++done; });
  EXPECT_EQ(done, 8);
}

}  // namespace
}  // namespace regroup::executor
