// SPDX-License-Identifier: Apache-2.0
// Monotonic time and deadlines. A deadline is a point in time; `forever` does not exist: every wait ends.
#pragma once

#include <chrono>
#include <cstdint>

namespace regroup::base {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = std::chrono::nanoseconds;

// `timeout` from now; a time-out too great to represent means the latest representable point (centuries away).
inline Time deadline_after(Duration timeout, Time now = Clock::now()) {
  if (timeout > Time::max() - now) return Time::max();
  return now + timeout;
}

}  // namespace regroup::base
