// SPDX-License-Identifier: Apache-2.0
// Monotonic time and deadlines. A deadline is a point in time; `forever` does not exist: every wait ends.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace regroup::base {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = std::chrono::nanoseconds;

// The time of the system's last tick, some milliseconds ago at most: a read of memory, some 10 ns. All processes of a
// host can compare it, and with Clock's.
inline Time recent_tick() {
  timespec tick{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
  return Time(std::chrono::seconds(tick.tv_sec) + std::chrono::nanoseconds(tick.tv_nsec));
}

// `timeout` from now; a time-out too great to represent means the latest representable point (centuries away).
inline Time deadline_after(Duration timeout, Time now = Clock::now()) {
  if (timeout > Time::max() - now) return Time::max();
  return now + timeout;
}

}  // namespace regroup::base
