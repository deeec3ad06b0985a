// SPDX-License-Identifier: Apache-2.0
// How the members of one epoch become the group of a later one: they agree who is left, those meet, then all agree
// whether all have met; where not, they begin again under the next epoch. Pure: decisions and the outcome of a meeting
// come in; what to do next goes out. How members talk, meet and wait is its owner's business; the native backend and
// the simulator drive this very code.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "membership/agreement.h"

namespace regroup::membership {

// What members can agree on. All have to call the same.
enum Purpose : uint64_t { kAgree = 1, kShrink, kHaveMet, kOutcome };

// Whether a decision answers what was asked: all members asked the same.
bool answers(const Decision& decision, uint64_t purpose);

// Whether the others go on without this member, which did not mean to leave.
bool leaves_behind(const Decision& decision, Rank rank, Rank size);

// What whoever waits for a decision does at which time. From half of the time on it is impatient, four times, where it
// gives up on those that have not come; otherwise it waits for all until the deadline.
class Patience {
 public:
  enum class Now : uint8_t { wait, impatient, over };

  static Patience endless(base::Time deadline) { return Patience(deadline, deadline); }
  static Patience half(base::Time now, base::Time deadline) { return Patience(deadline, now + (deadline - now) / 2); }

  Now at(base::Time now);
  base::Time next() const { return next_ < deadline_ ? next_ : deadline_; }  // when to look again
  bool gives_up() const { return gives_up_; }

 private:
  Patience(base::Time deadline, base::Time first);

  base::Time deadline_, next_;
  bool gives_up_;
  base::Duration step_;
};

class Rebirth {
 public:
  enum class Step : uint8_t {
    agree,        // begin an agreement with contribution() and suspects(), and tell decided()
    meet,         // meet survivors() as the members of next_epoch(), and tell met()
    done,         // what the survivors met for is the next group
    left_behind,  // the others go on without this member
    mismatch,     // some members asked something else
  };

  Rebirth(Rank rank, Rank size, uint64_t epoch) : rank_(rank), size_(size), epoch_(epoch), survivors_(size) {}

  Step step() const { return step_; }
  Contribution contribution(uint64_t progress) const;
  // Whom not to wait for: first those who are blamed for a failure; in the second agreement all that do not go on.
  RankSet suspects(const RankSet& blamed) const;
  const RankSet& survivors() const { return survivors_; }
  uint64_t next_epoch() const { return epoch_ + attempts_ + 1; }

  void decided(const Decision& decision);
  void met(bool all);

 private:
  const Rank rank_, size_;
  const uint64_t epoch_;
  uint64_t attempts_ = 0;  // that failed
  uint64_t purpose_ = kShrink;
  Step step_ = Step::agree;
  RankSet survivors_;
  bool met_ = false;
};

}  // namespace regroup::membership
