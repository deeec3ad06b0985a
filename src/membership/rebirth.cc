// SPDX-License-Identifier: Apache-2.0
#include "membership/rebirth.h"

#include <algorithm>

namespace regroup::membership {

bool answers(const Decision& decision, uint64_t purpose) { return !decision.mixed && decision.purpose == purpose; }

bool leaves_behind(const Decision& decision, Rank rank, Rank size) {
  return answers(decision, kShrink) && decision.survivors.size() == size && !decision.survivors.contains(rank) &&
         !decision.leaving.contains(rank);
}

Patience::Patience(base::Time deadline, base::Time first)
    : deadline_(deadline),
      next_(first),
      gives_up_(first < deadline),
      step_(std::max<base::Duration>((deadline - first) / 4, std::chrono::milliseconds(1))) {}

Patience::Now Patience::at(base::Time now) {
  if (now >= deadline_) return Now::over;
  if (now < next_) return Now::wait;
  next_ += step_;
  return Now::impatient;
}

Contribution Rebirth::contribution(uint64_t progress) const {
  Contribution mine;
  mine.purpose = purpose_;
  if (purpose_ == kShrink) {
    mine.flags = ~uint64_t{0};
    mine.progress = progress;
  } else {
    mine.flags = met_ ? 1 : 0;
  }
  return mine;
}

RankSet Rebirth::suspects(const RankSet& blamed) const {
  return purpose_ == kShrink ? blamed : RankSet::all(size_) - survivors_;
}

void Rebirth::decided(const Decision& decision) {
  if (!answers(decision, purpose_)) {
    step_ = Step::mismatch;
  } else if (purpose_ == kShrink) {
    survivors_ = decision.survivors;
    step_ = survivors_.contains(rank_) ? Step::meet : Step::left_behind;
  } else if (decision.flags == 1 && decision.came.includes(survivors_)) {
    // Had one that did not come not met the others, the next group would begin with a member that is not in it.
    step_ = Step::done;
  } else {
    ++attempts_;
    purpose_ = kShrink;
    step_ = Step::agree;
  }
}

void Rebirth::met(bool all) {
  met_ = all;
  purpose_ = kHaveMet;
  step_ = Step::agree;
}

}  // namespace regroup::membership
