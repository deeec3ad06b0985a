// SPDX-License-Identifier: Apache-2.0
#include "backend/native/contact.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace regroup::backend::native {
namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

bool pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// Launchers pin ranks: what one may use says nothing about whether it has to share.
TEST(UsableCores, AreThoseOfAllTogether) {
  const std::vector<int> cores = cores_of_this_thread();
  if (cores.size() < 2) GTEST_SKIP() << "one core only";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const char said = pin_to(cores[1]) ? 'y' : 'n';
    if (write(ready[1], &said, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char said = 'n';
  ASSERT_EQ(read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  std::thread([&] {
    ASSERT_TRUE(pin_to(cores[0]));
    EXPECT_EQ(usable_cores({}), 1u);
    EXPECT_EQ(usable_cores({static_cast<int>(child)}), 2u);
    ASSERT_TRUE(pin_to(cores[1]));
    EXPECT_EQ(usable_cores({static_cast<int>(child)}), 1u);
  }).join();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(usable_cores({static_cast<int>(child)}), cores.size());  // who is gone needs no core
}

}  // namespace
}  // namespace regroup::backend::native
