// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <system_error>

namespace regroup::base {

namespace {

// As linux/sched/types.h has it; glibc knows it only since 2.41.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // nanoseconds; of ordinary threads: the length of a turn
  uint64_t deadline;
  uint64_t period;
};

}  // namespace

Status start_thread(std::thread* thread, std::function<void()> body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    *thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    status = Status(StatusCode::resource_exhausted, std::string("cannot start a thread: ") + error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void take_short_turns() {
  constexpr uint64_t kShortest = 100'000;
  SchedulingAttributes attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // what a user chose stays
  attributes.runtime = kShortest;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace regroup::base
