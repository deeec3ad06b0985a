// SPDX-License-Identifier: Apache-2.0
// Who has come how far: what this rank began last, and what the others told about themselves. It is what answers "who
// is late?" and "what did they call?" between hosts. Plain data behind one mutex; knows no clock and no connection.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "regroup/types.h"
#include "transport/signature.h"

namespace regroup::membership {

// What a rank tells of itself.
struct State {
  uint64_t sequence = 0;  // of the operation it began last; 0: none yet
  transport::Signature signature;
  base::Time began{};  // by this host's clock, to some milliseconds
};

// Thread safe.
class Attendance {
 public:
  explicit Attendance(Rank size) : heard_(size) {}

  void began(uint64_t sequence, const transport::Signature& signature, base::Time now);
  // This rank's state as of `sequence`: the record of that operation if it is remembered, else the latest.
  State own(uint64_t sequence) const;

  void heard(Rank rank, const State& state, base::Time now);
  // What was last heard of a rank; nothing: it never answered.
  std::optional<State> of(Rank rank) const;
  // Whether the rank has said anything since `since`.
  bool answered_since(Rank rank, base::Time since) const;

 private:
  static constexpr size_t kRemembered = 64;
  struct Heard {
    State state;
    base::Time when{};
    bool any = false;
  };
  mutable std::mutex mutex_;
  State own_[kRemembered];  // by sequence mod kRemembered
  uint64_t latest_ = 0;
  std::vector<Heard> heard_;
};

}  // namespace regroup::membership
