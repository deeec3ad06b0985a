// SPDX-License-Identifier: Apache-2.0
// How a rank's end is noticed, and that nobody who lives is taken for dead: much memory, children that hold
// descriptors, stopped ranks, cut links. What a deadline tells about those who did not come.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <latch>
#include <thread>

#include "unit/forked_ranks.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

constexpr Wire kShm = kWires[0], kTcp = kWires[2], kMixed = kWires[3];

// For bodies of forked ranks: 0 where `status` blames `ranks` in this way.
int blames(const ProcessGroup& group, const Status& status, StatusCode code, const std::vector<Rank>& ranks) {
  if (status.code() == code && status.ranks() == ranks) return 0;
  std::fprintf(stderr, "rank %u: %s\n", group.rank(), status.to_string().c_str());
  return 3;
}

// All-reduces of two sizes until one fails.
Status reduce_until_failure(ProcessGroup& group) {
  std::vector<int32_t> x(1 << 20);
  for (int round = 0; round < 1'000'000; ++round) {
    const Status status = group.run(all_reduce(in_place(x.data(), round % 2 == 0 ? 2 : x.size())));
    if (!status.ok()) return status;
  }
  return Status();
}

// Rank 1 of 4 is killed in the midst of a collective, after `prepare`.
void kill_one(const Wire& wire, const std::function<void()>& prepare) {
  constexpr Rank kVictim = 1;
  const std::vector<int> ends = forked(
      4, wire,
      [&](ProcessGroup& group) {
        if (group.rank() == kVictim) prepare();
        if (!group.run(barrier()).ok()) return 2;
        std::thread killer([&] {
          if (group.rank() != kVictim) return;
          std::this_thread::sleep_for(20ms);
          kill(getpid(), SIGKILL);
        });
        const Status status = reduce_until_failure(group);
        killer.join();
        return blames(group, status, StatusCode::peer_lost, {kVictim});
      },
      60);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(ends[rank], rank == kVictim ? SIGKILL : 0) << wire.name << ", rank " << rank;
}

TEST(Detection, ARankWithMuchMemoryIsKilled) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const Wire& wire : {kShm, kTcp, kMixed})
    kill_one(wire, [] { static const std::vector<char> resident(512 << 20, 'x'); });
}

// A child made behind the library's back has copies of all descriptors: no connection of the victim ever ends.
TEST(Detection, ARankWhoseChildHoldsItsDescriptorsIsKilled) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const Wire& wire : {kShm, kTcp, kMixed}) {
    kill_one(wire, [] {
      if (syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) != 0) return;
      alarm(5);
      for (;;) pause();
    });
  }
}

TEST(Detection, AStoppedRankIsNamedAtTheDeadlineAndNotBefore) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const Wire& wire : {kShm, kTcp, kMixed}) {
    const std::vector<int> ends = forked(4, wire, [](ProcessGroup& group) {
      std::vector<int32_t> pid = {getpid()}, pids(4);
      if (!group.run(all_gather(from(pid), into(pids))).ok()) return 2;
      if (group.rank() == 3) raise(SIGSTOP);
      // Those to whom the others' verdict comes first have it from them.
      const Status status = group.run(barrier({.timeout = 1500ms}));
      std::this_thread::sleep_for(100ms);
      if (group.rank() == 0) kill(pids[3], SIGKILL);
      return blames(group, status, StatusCode::timeout, {3});
    });
    for (Rank rank = 0; rank < 4; ++rank)
      EXPECT_EQ(ends[rank], rank == 3 ? SIGKILL : 0) << wire.name << ", rank " << rank;
  }
}

// The hosts of its peers ask the host, not the process.
TEST(Detection, ARankThatIsStoppedForLongAndGoesOnIsNoFailure) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  setenv("REGROUP_LIVENESS", "1s", 1);
  for (const Wire& wire : {kMixed}) {
    const std::vector<int> ends = forked(3, wire, [](ProcessGroup& group) {
      std::vector<int32_t> pid = {getpid()}, pids(3);
      if (!group.run(all_gather(from(pid), into(pids))).ok()) return 2;
      std::thread waker([&] {
        if (group.rank() != 0) return;
        std::this_thread::sleep_for(3200ms);
        kill(pids[2], SIGCONT);
      });
      if (group.rank() == 2) raise(SIGSTOP);
      std::vector<int32_t> x(1 << 20, 1);
      const Status status = group.run(all_reduce(in_place(x)));
      waker.join();
      return blames(group, status, StatusCode::ok, {});
    });
    EXPECT_EQ(ends, std::vector<int>(3, 0)) << wire.name;
  }
  unsetenv("REGROUP_LIVENESS");
}

TEST(Detection, LivenessIsChecked) {
  JoinOptions options;
  options.rank = 0;
  options.size = 1;
  options.liveness = 0ns;
  EXPECT_EQ(join(options).status().code(), StatusCode::invalid_argument);
  options.liveness.reset();
  setenv("REGROUP_LIVENESS", "soon", 1);
  const Status status = join(options).status();
  unsetenv("REGROUP_LIVENESS");
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("REGROUP_LIVENESS"), std::string::npos) << status.message();
  options.liveness = std::chrono::hours(10000);
  EXPECT_TRUE(join(options).ok());
}

TEST(Detection, ADeadlineTellsWhatTheLateBeganLastAndWhen) {
  for (const Wire& wire : {kShm, kTcp, kMixed}) {
    std::latch over(3);
    on_wires({&wire, 1}, 3, [&](ProcessGroup& group) {
      std::vector<int32_t> x(3);
      check(group.run(barrier()));
      check(group.run(all_reduce(in_place(x))));
      if (group.rank() == 2) return over.arrive_and_wait();
      std::this_thread::sleep_for(100ms);
      const Status status = group.run(barrier({.timeout = 300ms}));
      over.arrive_and_wait();
      require(status.code() == StatusCode::timeout, status.to_string());
      const std::string& text = status.message();
      const size_t told = text.find("rank 2 last began operation 2, all_reduce of 3 int32 by sum, ");
      require(told != std::string::npos, text);
      const long ago = std::atol(text.c_str() + text.rfind(", ") + 2);
      require(ago >= 350 && ago < 20000 && text.ends_with(" ms ago"), text);
    });
  }
}

TEST(Detection, ADeadlineTellsOfARankThatNeverBegan) {
  std::latch over(2);
  on_wires({&kShm, 1}, 2, [&](ProcessGroup& group) {
    if (group.rank() == 1) return over.arrive_and_wait();
    std::vector<int32_t> x(3);
    const Status status = group.run(receive(into(x), 1, 7, {.timeout = 50ms}));
    over.arrive_and_wait();
    require(status.ranks() == std::vector<Rank>{1}, status.to_string());
    require(status.message().find("; rank 1 has begun no collective operation") != std::string::npos,
            status.to_string());
  });
}

// --- two hosts on one: namespaces of the network, joined by a pair of virtual interfaces

constexpr int kNoNamespaces = 77;

bool call(const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; }

bool say(int to) { return write(to, "x", 1) == 1; }
bool hear(int from) {
  char byte;
  return read(from, &byte, 1) == 1;
}

// Ends when the link is cut: in an operation, or in none.
int until_cut(ProcessGroup& group, bool busy, const std::function<void()>& cut) {
  if (!group.run(barrier()).ok()) return 2;
  std::thread cutter([&] {
    std::this_thread::sleep_for(100ms);
    cut();
  });
  Status status;
  if (busy) {
    status = reduce_until_failure(group);
  } else {
    while (group.last_failure().ok()) std::this_thread::sleep_for(5ms);  // ends by the alarm
    status = group.last_failure();
  }
  cutter.join();
  const bool told = status.message().find("its host does not answer") != std::string::npos;
  const Rank other = group.rank() == 2 ? status.ranks().empty() ? 2 : status.ranks()[0] : 2;
  if (!told || (group.rank() == 2 && other == 2)) {
    std::fprintf(stderr, "rank %u: %s\n", group.rank(), status.to_string().c_str());
    return 3;
  }
  return blames(group, status, StatusCode::peer_lost, {other});
}

// Ranks 0 and 1 share the near namespace, rank 2 is alone in the far one.
int near_host(const std::string& store, bool busy, int from_far, int to_far) {
  if (unshare(CLONE_NEWNET) != 0) return kNoNamespaces;
  int far = 0;
  if (read(from_far, &far, sizeof far) != sizeof far) return kNoNamespaces;
  if (!call("ip link add regroup0 type veth peer name regroup1") ||
      !call("ip link set regroup1 netns " + std::to_string(far)) ||
      !call("ip address add 10.231.7.1/24 dev regroup0 && ip link set regroup0 up && ip link set lo up")) {
    return kNoNamespaces;
  }
  say(to_far);
  if (!hear(from_far)) return kNoNamespaces;
  const pid_t child = fork();
  alarm(30);
  JoinOptions options;
  options.rank = child == 0 ? 1 : 0;
  options.size = 3;
  options.interface = "regroup0";
  options.store_url = store;
  const auto body = [&](ProcessGroup& group) {
    const int code = until_cut(group, busy, [&] {
      if (group.rank() == 0) call("ip link set regroup0 down");
    });
    int end = 0;
    if (group.rank() == 0) waitpid(child, &end, 0);
    return end == 0 ? code : 4;
  };
  be_rank(options, body);
}

int far_host(const std::string& store, bool busy, int from_near, int to_near) {
  if (unshare(CLONE_NEWNET) != 0) return kNoNamespaces;
  const int self = getpid();
  if (write(to_near, &self, sizeof self) != sizeof self || !hear(from_near)) return kNoNamespaces;
  if (!call("ip address add 10.231.7.2/24 dev regroup1 && ip link set regroup1 up && ip link set lo up"))
    return kNoNamespaces;
  say(to_near);
  alarm(30);
  JoinOptions options;
  options.rank = 2;
  options.size = 3;
  options.interface = "regroup1";
  options.store_url = store;
  be_rank(options, [&](ProcessGroup& group) { return until_cut(group, busy, [] {}); });
}

TEST(Detection, ACutLinkIsNoticedAtBothEnds) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const bool busy : {true, false}) {
    const FreshStore store;
    int to_far[2], to_near[2];
    ASSERT_TRUE(pipe(to_far) == 0 && pipe(to_near) == 0);
    pid_t hosts[2];
    for (int host = 0; host < 2; ++host) {
      hosts[host] = fork();
      if (hosts[host] != 0) continue;
      std::signal(SIGALRM, SIG_DFL);
      close(host == 0 ? to_far[0] : to_near[0]);
      close(host == 0 ? to_near[1] : to_far[1]);
      _exit(host == 0 ? near_host(store.url(), busy, to_near[0], to_far[1])
                      : far_host(store.url(), busy, to_far[0], to_near[1]));
    }
    for (const int fd : {to_far[0], to_far[1], to_near[0], to_near[1]}) close(fd);
    int ends[2];
    for (int host = 0; host < 2; ++host) waitpid(hosts[host], &ends[host], 0);
    const auto refused = [](int end) { return WIFEXITED(end) && WEXITSTATUS(end) == kNoNamespaces; };
    if (refused(ends[0]) || refused(ends[1])) GTEST_SKIP() << "network namespaces cannot be made here";
    EXPECT_EQ(ends[0], 0) << (busy ? "busy" : "idle");
    EXPECT_EQ(ends[1], 0) << (busy ? "busy" : "idle");
  }
}

}  // namespace
}  // namespace regroup
