// SPDX-License-Identifier: Apache-2.0
// The buffers of one rank of a contest: made once for the largest size, cut anew for each. The same for every
// contender, but for where they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "conformance/values.h"
#include "contest/contender.h"

namespace regroup::contest {

class Buffers {
 public:
  // False: not enough memory.
  bool make(const Task& task, Rank rank, Contender& contender);
  // Another size, in elements of a part: new values, and what they must lead to.
  void resize(uint64_t part);
  const Turn& turn() const { return turn_; }
  // Before each call.
  void write_inputs();
  // After it: whether every output element is right.
  bool right() const;

 private:
  void expect();

  Turn turn_;
  conformance::ValueRule rule_;
  std::vector<std::byte> pristine_;  // what inputs are written from
  std::vector<std::byte> expected_;
};

}  // namespace regroup::contest
