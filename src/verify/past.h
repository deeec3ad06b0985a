// SPDX-License-Identifier: Apache-2.0
// Happens-before: for each step, in the order of execution, the set of steps that are certainly over, and of ranks that
// have certainly entered the operation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "regroup/types.h"
#include "verify/memory.h"

namespace regroup::verify {

// A row a step. A step knows only of earlier ones, so that its row ends at itself: half a square of bits.
class Past {
 public:
  Past(Rank ranks, size_t steps) : ranks_(ranks) {
    begins_.reserve(steps + 1);
    begins_.push_back(0);
    for (size_t place = 0; place < steps; ++place) begins_.push_back(begins_.back() + (ranks + place) / 64 + 1);
    bits_.resize(begins_.back());
  }

  bool over(Place row, Place step) const { return step <= row && test(row, ranks_ + size_t{step}); }
  bool entered(Place row, Rank rank) const { return test(row, rank); }
  void set_over(Place row, Place step) { set(row, ranks_ + size_t{step}); }
  void clear_over(Place row, Place step) {
    const size_t bit = ranks_ + size_t{step};
    bits_[begins_[row] + bit / 64] &= ~(uint64_t{1} << (bit % 64));
  }
  void set_entered(Place row, Rank rank) { set(row, rank); }
  // What `earlier` knows, `row` knows too.
  void include(Place row, Place earlier) {
    uint64_t* to = bits_.data() + begins_[row];
    for (const uint64_t word : this->row(earlier)) *to++ |= word;
  }
  std::span<const uint64_t> row(Place place) const {
    return {bits_.data() + begins_[place], begins_[place + 1] - begins_[place]};
  }
  size_t bit(Place step) const { return ranks_ + size_t{step}; }

 private:
  bool test(Place row, size_t bit) const { return bits_[begins_[row] + bit / 64] >> (bit % 64) & 1; }
  void set(Place row, size_t bit) { bits_[begins_[row] + bit / 64] |= uint64_t{1} << (bit % 64); }

  Rank ranks_;
  std::vector<size_t> begins_;
  std::vector<uint64_t> bits_;
};

}  // namespace regroup::verify
