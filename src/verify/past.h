// SPDX-License-Identifier: Apache-2.0
// Happens-before, kept for the step that runs and for those that later steps still build on: which steps are certainly
// over, and which ranks have certainly entered the operation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "regroup/types.h"
#include "verify/memory.h"

namespace regroup::verify {

// Steps are known by their places in the order of execution. A step knows only of earlier ones, so that its row of bits
// (a bit a rank, then a bit a step) ends at itself; and a row goes when nobody will need it any more.
class Past {
 public:
  // uses[p]: how many times the step at place p is going to be included.
  Past(Rank ranks, std::vector<uint32_t> uses) : ranks_(ranks), uses_(std::move(uses)), rows_(uses_.size()) {}

  // From here on, all is about the step at this place, which knows nothing yet.
  void start(Place now) {
    now_ = now;
    row_ = take_spare();
  }
  // What the step at `earlier` knew when it was over, this one knows too.
  void include(Place earlier) {
    std::vector<uint64_t>& other = rows_[earlier];
    const bool last_use = --uses_[earlier] == 0;
    if (row_.empty() && last_use) {
      row_.swap(other);
    } else if (row_.empty()) {
      row_.assign(other.begin(), other.end());
    } else {
      for (size_t word = 0; word < other.size(); ++word) row_[word] |= other[word];
    }
    row_.resize(words(now_));
    if (last_use) spare_.push_back(std::move(other));
  }
  void learn_over(Place step) { set(ranks_ + size_t{step}); }
  void forget_over(Place step) {
    row_[(ranks_ + size_t{step}) / 64] &= ~(uint64_t{1} << ((ranks_ + size_t{step}) % 64));
  }
  void learn_entered(Rank rank) { set(rank); }
  bool over(Place step) const { return step < now_ && test(row_, ranks_ + size_t{step}); }
  // All that the step knows is added to `knowledge`, which others can be asked about.
  void add_to(std::vector<uint64_t>& knowledge) const {
    if (knowledge.size() < row_.size()) knowledge.resize(row_.size());
    for (size_t word = 0; word < row_.size(); ++word) knowledge[word] |= row_[word];
  }
  // Nothing more is learnt; what is known stays for as long as somebody is going to include it.
  void finish() {
    if (uses_[now_] > 0) {
      rows_[now_] = std::move(row_);
    } else {
      spare_.push_back(std::move(row_));
    }
    row_.clear();
  }

  bool over(const std::vector<uint64_t>& knowledge, Place step) const { return test(knowledge, ranks_ + size_t{step}); }
  bool entered(const std::vector<uint64_t>& knowledge, Rank rank) const { return test(knowledge, rank); }

 private:
  size_t words(Place place) const { return (ranks_ + size_t{place}) / 64 + 1; }
  static bool test(const std::vector<uint64_t>& row, size_t bit) {
    return bit / 64 < row.size() && (row[bit / 64] >> (bit % 64) & 1) != 0;
  }
  void set(size_t bit) {
    if (row_.empty()) row_.resize(words(now_));
    row_[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  std::vector<uint64_t> take_spare() {
    if (spare_.empty()) return {};
    std::vector<uint64_t> row = std::move(spare_.back());
    spare_.pop_back();
    row.clear();
    return row;
  }

  Rank ranks_;
  std::vector<uint32_t> uses_;  // by place, still to come
  std::vector<std::vector<uint64_t>> rows_;
  std::vector<std::vector<uint64_t>> spare_;
  Place now_ = 0;
  std::vector<uint64_t> row_;
};

}  // namespace regroup::verify
