// SPDX-License-Identifier: Apache-2.0
// One at a time, and the others wait until a deadline. A mutex with a time-out would do, but ThreadSanitizer of gcc 12
// does not know the call that std::timed_mutex makes.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace regroup::base {

class Turns {
 public:
  // While it exists and owns it, it is its owner's turn.
  class Turn {
   public:
    Turn(Turns& turns, Time until) : turns_(turns) {
      std::unique_lock lock(turns.mutex_);
      mine_ = turns.changed_.wait_until(lock, until, [&turns] { return !turns.taken_; });
      if (mine_) turns.taken_ = true;
    }
    ~Turn() {
      if (!mine_) return;
      std::lock_guard lock(turns_.mutex_);
      turns_.taken_ = false;
      turns_.changed_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // False: the deadline passed.
    bool mine() const { return mine_; }

   private:
    Turns& turns_;
    bool mine_ = false;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool taken_ = false;
};

}  // namespace regroup::base
