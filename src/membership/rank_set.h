// SPDX-License-Identifier: Apache-2.0
// A set of ranks of a group of known size, as a bit for each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "regroup/types.h"

namespace regroup::membership {

class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(Rank size) : size_(size), words_((size + 63) / 64) {}
  static RankSet all(Rank size) {
    RankSet set(size);
    for (Rank rank = 0; rank < size; ++rank) set.add(rank);
    return set;
  }

  Rank size() const { return size_; }
  bool contains(Rank rank) const { return rank < size_ && (words_[rank / 64] >> (rank % 64) & 1) != 0; }
  void add(Rank rank) {
    REGROUP_ASSERT(rank < size_);
    words_[rank / 64] |= uint64_t{1} << (rank % 64);
  }
  void remove(Rank rank) {
    if (rank < size_) words_[rank / 64] &= ~(uint64_t{1} << (rank % 64));
  }
  Rank count() const {
    Rank bits = 0;
    for (const uint64_t word : words_) bits += static_cast<Rank>(std::popcount(word));
    return bits;
  }
  bool empty() const { return count() == 0; }
  // The lowest rank in it; size() where there is none.
  Rank first() const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != 0) return static_cast<Rank>(64 * i + static_cast<size_t>(std::countr_zero(words_[i])));
    }
    return size_;
  }
  std::vector<Rank> ranks() const {
    std::vector<Rank> list;
    for (Rank rank = 0; rank < size_; ++rank) {
      if (contains(rank)) list.push_back(rank);
    }
    return list;
  }

  // Of sets of the same group.
  RankSet& operator|=(const RankSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  RankSet& operator-=(const RankSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    return *this;
  }
  friend RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  friend RankSet operator-(RankSet a, const RankSet& b) { return a -= b; }
  bool operator==(const RankSet&) const = default;
  bool includes(const RankSet& other) const { return (other - *this).empty(); }

  // For sending.
  const std::vector<uint64_t>& words() const { return words_; }
  // False where a bit beyond the size is set.
  bool assign(Rank size, std::vector<uint64_t> words) {
    if (words.size() != (size + 63) / 64) return false;
    if (size % 64 != 0 && !words.empty() && (words.back() >> (size % 64)) != 0) return false;
    size_ = size;
    words_ = std::move(words);
    return true;
  }

 private:
  Rank size_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace regroup::membership
