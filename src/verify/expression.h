// SPDX-License-Identifier: Apache-2.0
// What an element's value is made of, symbolically: an element of some rank's input, or a fold of such.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "regroup/types.h"

namespace regroup::verify {

using ExpressionId = uint32_t;
inline constexpr ExpressionId kUndefined = 0;  // never written

struct Expression {
  // Equal for expressions that give the same bits, whatever the operator: a fold goes from left to right, so
  // fold(fold(a, b), c) and fold(a, b, c) are the same, while fold(b, a) and fold(a, fold(b, c)) are others.
  uint64_t key = 0;
  Rank first = 0, last = 0;    // contributions: the leftmost, the rightmost rank
  uint32_t contributions = 0;  // how many
  bool rank_order = true;      // contributions rise from left to right
  bool folded = false;         // not an input itself
  bool one_fold = false;       // a fold of inputs only
  bool finished = false;       // a complete result, which must not be folded again
};

// The expressions of one operation, each kept once. An expression stands for the whole vector: element i of it is made
// of element i of every rank's input.
class Expressions {
 public:
  explicit Expressions(Rank size);

  ExpressionId input(Rank rank) const { return 1 + rank; }
  const Expression& operator[](ExpressionId id) const { return all_[id]; }
  bool contains(ExpressionId id, Rank rank) const { return mask(id)[rank / 64] >> (rank % 64) & 1; }
  bool complete(ExpressionId id) const { return all_[id].contributions == size_; }

  // None of the operands is undefined. kUndefined if a rank contributes to two operands; it is stored in `*twice`.
  ExpressionId fold(std::span<const ExpressionId> operands, Rank* twice);
  ExpressionId finish(ExpressionId id);

 private:
  const uint64_t* mask(ExpressionId id) const { return masks_.data() + static_cast<size_t>(id) * words_; }
  ExpressionId add(const Expression& expression);

  Rank size_;
  uint32_t words_;                                    // of a set of ranks
  std::vector<Expression> all_;                       // [0] is undefined, [1 + r] the input of rank r
  std::vector<uint64_t> masks_;                       // the contributing ranks of each
  std::unordered_map<uint64_t, ExpressionId> known_;  // by a hash of how they were made
};

}  // namespace regroup::verify
