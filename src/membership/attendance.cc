// SPDX-License-Identifier: Apache-2.0
#include "membership/attendance.h"

namespace regroup::membership {

void Attendance::began(uint64_t sequence, const transport::Signature& signature, base::Time now) {
  std::lock_guard lock(mutex_);
  own_[sequence % kRemembered] = {sequence, signature, now};
  latest_ = sequence;
}

State Attendance::own(uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  const State& at = own_[sequence % kRemembered];
  return at.sequence == sequence ? at : own_[latest_ % kRemembered];
}

void Attendance::heard(Rank rank, const State& state, base::Time now) {
  std::lock_guard lock(mutex_);
  heard_[rank] = {state, now, true};
}

std::optional<State> Attendance::of(Rank rank) const {
  std::lock_guard lock(mutex_);
  if (!heard_[rank].any) return std::nullopt;
  return heard_[rank].state;
}

bool Attendance::answered_since(Rank rank, base::Time since) const {
  std::lock_guard lock(mutex_);
  return heard_[rank].any && heard_[rank].when >= since;
}

}  // namespace regroup::membership
