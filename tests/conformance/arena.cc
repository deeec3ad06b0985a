// SPDX-License-Identifier: Apache-2.0
#include "conformance/arena.h"

#include "base/assert.h"

namespace regroup::conformance {

namespace {

constexpr uint64_t kGap = 64;

std::byte gap_byte(uint64_t position) { return static_cast<std::byte>(0xc5 ^ (position * 7 & 0x3f)); }

}  // namespace

void Arena::reset() {
  used_ = 0;
  gaps_.clear();
}

std::byte* Arena::take(uint64_t bytes, uint64_t shift) {
  const uint64_t begin = (used_ + kGap + 63) / 64 * 64 + shift;
  REGROUP_ASSERT(begin + bytes + kGap <= bytes_);
  mark(used_, begin);
  mark(begin + bytes, begin + bytes + kGap);
  used_ = begin + bytes + kGap;
  return data_ + begin;
}

void Arena::mark(uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; ++at) data_[at] = gap_byte(at);
  gaps_.push_back({begin, end});
}

bool Arena::intact() const {
  for (const Gap& gap : gaps_) {
    for (uint64_t at = gap.begin; at < gap.end; ++at) {
      if (data_[at] != gap_byte(at)) return false;
    }
  }
  return true;
}

}  // namespace regroup::conformance
