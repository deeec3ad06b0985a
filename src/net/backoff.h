// SPDX-License-Identifier: Apache-2.0
// Pauses between tries: growing, so that a late peer is not hammered, and jittered, so that many ranks do not come in
// step.
#pragma once

#include <algorithm>
#include <random>

#include "base/clock.h"

namespace regroup::net {

class Backoff {
 public:
  explicit Backoff(base::Duration first = std::chrono::milliseconds(1),
                   base::Duration longest = std::chrono::milliseconds(200))
      : next_(first), longest_(longest) {}

  // The next pause: between half and all of a length that doubles each time.
  base::Duration next() {
    static thread_local std::minstd_rand random{std::random_device{}()};
    const int64_t length = next_.count();
    next_ = std::min(longest_, next_ * 2);
    return base::Duration(std::uniform_int_distribution<int64_t>(length / 2, length)(random));
  }

 private:
  base::Duration next_;
  base::Duration longest_;
};

}  // namespace regroup::net
