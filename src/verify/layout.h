// SPDX-License-Identifier: Apache-2.0
// Where the elements of a rank's spaces lie in one imaginary memory, so that slices which share memory in place overlap
// there too.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::verify {

// `count` elements of a rank's imaginary memory.
struct Piece {
  uint64_t begin = 0;
  uint64_t count = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// Elements of each part of `space` (input or output) as the rank of `problem` has it.
std::vector<uint64_t> part_counts(const plan::Problem& problem, plan::Space space);

// One space of one rank in one operation.
class SpaceLayout {
 public:
  SpaceLayout() = default;
  explicit SpaceLayout(const std::vector<uint64_t>& counts);

  uint32_t parts() const { return static_cast<uint32_t>(bases_.size()); }
  uint64_t count(uint32_t part) const { return starts_[part + 1] - starts_[part]; }
  uint64_t total() const { return starts_.back(); }
  // Position of a part's first element among the elements of the space.
  uint64_t start(uint32_t part) const { return starts_[part]; }
  uint64_t base(uint32_t part) const { return bases_[part]; }

  void place(uint32_t part, uint64_t base) { bases_[part] = base; }
  // Places all parts one behind the other.
  void place_all(uint64_t base);

  // Whether the slice lies inside. Its offset may lie beyond its part: it runs on just as its elements do.
  bool contains(const plan::Slice& slice) const;
  // Appends the pieces that a slice inside consists of; neighbours are joined.
  void resolve(const plan::Slice& slice, std::vector<Piece>& pieces) const;

 private:
  std::vector<uint64_t> starts_ = {0};  // of each part, and the total
  std::vector<uint64_t> bases_;
};

// All memory of one rank in one operation.
struct MemberLayout {
  std::array<SpaceLayout, 3> spaces;

  const SpaceLayout& operator[](plan::Space space) const { return spaces[static_cast<size_t>(space)]; }
  SpaceLayout& operator[](plan::Space space) { return spaces[static_cast<size_t>(space)]; }
};

// Places the spaces from address `*next` on, and moves `*next` behind them.
MemberLayout lay_out(const plan::Problem& problem, uint64_t scratch_count, bool in_place, uint64_t* next);

}  // namespace regroup::verify
