// SPDX-License-Identifier: Apache-2.0
// The agreements of one epoch, one after the other, as one member sees them: the one that is sought, the ones before it
// (others may still ask), and the next (others may be ahead). Pure; its owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "membership/agreement.h"

namespace regroup::membership {

class Council {
 public:
  Council(Rank rank, Rank size) : rank_(rank), size_(size), dead_(size), unreachable_(size) {}

  // Begins the next agreement with this member's part, and returns its number. `suspects` are not waited for.
  uint32_t begin(Contribution contribution, Quorum quorum, const RankSet& suspects);
  void heard(Rank from, const AgreementMessage& message);
  // Never undone within an epoch.
  void failed(Rank member, Agreement::Failure how);
  // Of the agreement begun last.
  void impatient() { at(begun_).impatient(); }
  const Agreement& latest() { return at(begun_); }
  // Of one that is remembered: begun, or heard of.
  const std::optional<Decision>& decision(uint32_t instance) { return at(instance).decision(); }
  // The number of the agreement that comes after the one begun last.
  uint32_t next() const { return begun_ + 1; }

  const RankSet& dead() const { return dead_; }
  RankSet failed_members() const { return dead_ | unreachable_; }

  // Before this member goes: what it knows, for those that have not heard it.
  void farewell();
  Agreement::Outbox take();

 private:
  friend struct Tamper;  // of the simulation, which plants faults

  static constexpr uint32_t kRemembered = 3;  // before the next

  Agreement& at(uint32_t instance);

  Rank rank_, size_;
  uint32_t begun_ = 0;
  RankSet dead_, unreachable_;
  std::map<uint32_t, Agreement> agreements_;
};

}  // namespace regroup::membership
