// SPDX-License-Identifier: Apache-2.0
// A rank that is blocked in a collective sleeps, so that its core is free for others. What that saves is measured in
// benchmarks/blocked.cc; here the kernel is asked what the thread does.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "regroup/regroup.h"
#include "unit/wires.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

struct Doing {
  char state = '?';   // 'S': asleep
  std::string slept;  // how often so far, as the kernel prints it
};

Doing doing(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  Doing now;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "State:") words >> now.state;
    if (name == "voluntary_ctxt_switches:") words >> now.slept;
  }
  return now;
}

// Whether the thread comes to sleep so well that it is found asleep twenty times, a millisecond apart, and was not
// awake in between.
bool falls_asleep(pid_t thread) {
  Doing last;
  const auto until = std::chrono::steady_clock::now() + 10s;
  for (int looks = 0; looks < 20 && std::chrono::steady_clock::now() < until;) {
    const Doing now = doing(thread);
    looks = now.state == 'S' && now.slept == last.slept ? looks + 1 : 0;
    if (looks == 20) return true;
    last = now;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

void sleeps_until_the_last_rank_comes(ProcessGroup& group, const Operation& operation, std::atomic<pid_t>& blocked) {
  if (group.rank() == 0) blocked = ::gettid();
  check(group.run(barrier()));
  if (group.rank() + 1 == group.size()) require(falls_asleep(blocked), "rank 0 does not sleep while it is blocked");
  check(group.run(operation));
}

TEST(Blocked, ARankSleepsInAnOperationOfFewBytes) {
  std::atomic<pid_t> blocked = 0;
  on_every_wire(3, [&](ProcessGroup& group) {
    std::vector<int32_t> few(2, 1);
    sleeps_until_the_last_rank_comes(group, all_reduce(in_place(few)), blocked);
    require(few[0] == 3, "wrong sum");
  });
}

TEST(Blocked, ARankSleepsInAPlannedOperation) {
  std::atomic<pid_t> blocked = 0;
  on_every_wire(3, [&](ProcessGroup& group) {
    std::vector<int32_t> many(100000, 1);
    sleeps_until_the_last_rank_comes(group, all_reduce(in_place(many)), blocked);
    require(many[99999] == 3, "wrong sum");
  });
}

// Neither who waits nor who drives spins: the one on the condition variable, the other in its sleep.
TEST(Blocked, AWaiterOfAStartedOperationSleeps) {
  std::atomic<pid_t> blocked = 0;
  on_every_wire(2, [&](ProcessGroup& group) {
    std::vector<int32_t> few(2, 1);
    if (group.rank() == 0) blocked = ::gettid();
    check(group.run(barrier()));
    if (group.rank() == 1) require(falls_asleep(blocked), "rank 0 does not sleep while it waits");
    Work work = group.start(all_reduce(in_place(few)));
    check(work.wait());
    require(few[0] == 2, "wrong sum");
  });
}

}  // namespace
}  // namespace regroup
