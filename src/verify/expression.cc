// SPDX-License-Identifier: Apache-2.0
#include "verify/expression.h"

#include <bit>

#include "base/hash.h"

namespace regroup::verify {

namespace {
constexpr uint64_t kFoldSeed = 0x666f6c64;
constexpr uint64_t kFinishSeed = 0x66696e69;
}  // namespace

Expressions::Expressions(Rank size) : size_(size), words_((size + 63) / 64) {
  add({});
  for (Rank rank = 0; rank < size; ++rank) {
    Expression leaf;
    leaf.key = base::mix(0x696e7075, rank + 1);
    leaf.first = leaf.last = rank;
    leaf.contributions = 1;
    const ExpressionId id = add(leaf);
    masks_[static_cast<size_t>(id) * words_ + rank / 64] |= uint64_t{1} << (rank % 64);
  }
}

ExpressionId Expressions::add(const Expression& expression) {
  all_.push_back(expression);
  masks_.resize(masks_.size() + words_);
  return static_cast<ExpressionId>(all_.size() - 1);
}

ExpressionId Expressions::fold(std::span<const ExpressionId> operands, Rank* twice) {
  uint64_t made = kFoldSeed;
  for (const ExpressionId operand : operands) made = base::mix(made, operand);
  if (const auto known = known_.find(made); known != known_.end()) return known->second;

  Expression result;
  result.folded = result.one_fold = true;
  std::vector<uint64_t> ranks(words_);
  bool leftmost = true;
  for (const ExpressionId operand : operands) {
    const Expression& part = all_[operand];
    result.key = leftmost ? part.key : base::mix(base::mix(result.key, kFoldSeed), part.key);
    result.rank_order = result.rank_order && part.rank_order && (leftmost || result.last < part.first);
    result.one_fold = result.one_fold && !part.folded;
    if (leftmost) result.first = part.first;
    result.last = part.last;
    result.contributions += part.contributions;
    leftmost = false;
    for (uint32_t word = 0; word < words_; ++word) {
      if (const uint64_t both = ranks[word] & mask(operand)[word]; both != 0) {
        *twice = word * 64 + static_cast<Rank>(std::countr_zero(both));
        return kUndefined;
      }
      ranks[word] |= mask(operand)[word];
    }
  }
  const ExpressionId id = add(result);
  std::copy(ranks.begin(), ranks.end(), masks_.begin() + static_cast<ptrdiff_t>(id) * words_);
  known_.emplace(made, id);
  return id;
}

ExpressionId Expressions::finish(ExpressionId unfinished) {
  const uint64_t made = base::mix(kFinishSeed, unfinished);
  if (const auto known = known_.find(made); known != known_.end()) return known->second;
  Expression result = all_[unfinished];
  result.key = base::mix(result.key, kFinishSeed);
  result.finished = true;
  const std::vector<uint64_t> ranks(mask(unfinished), mask(unfinished) + words_);
  const ExpressionId id = add(result);
  std::copy(ranks.begin(), ranks.end(), masks_.begin() + static_cast<ptrdiff_t>(id) * words_);
  known_.emplace(made, id);
  return id;
}

}  // namespace regroup::verify
