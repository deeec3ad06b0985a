// SPDX-License-Identifier: Apache-2.0
// Spanning trees over the ranks of a group, and the two pipelines that run over any of them: down from the root
// (broadcast) and up to it (reduce). A tree looks at ranks relative to the root: the root is 0, the rank after it 1,
// and so on round.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::algorithms {

constexpr Rank relative_rank(Rank rank, Rank root, Rank size) {
  return rank >= root ? rank - root : rank + (size - root);
}
constexpr Rank absolute_rank(Rank relative, Rank root, Rank size) {
  return relative < size - root ? relative + root : relative - (size - root);
}

// One rank's place in a tree.
struct Tree {
  Rank parent = plan::kNoRank;  // kNoRank at the root
  std::vector<Rank> children;   // those with the greater subtrees first

  bool is_root() const { return parent == plan::kNoRank; }
};

Tree star_tree(Rank rank, Rank root, Rank size);
Tree chain_tree(Rank rank, Rank root, Rank size);
// Depth ⌈log2 size⌉. The subtree of a rank consists of relative ranks that follow one another, the rank itself first.
Tree binomial_tree(Rank rank, Rank root, Rank size);

// How many ranks the binomial subtree of a relative rank has, itself included.
Rank binomial_subtree(Rank relative, Rank size);

// Sends the vector down the tree, block by block: each rank passes a block on as soon as it has it.
plan::Schedule broadcast_over(const Tree& tree, const plan::Problem& problem, uint64_t block);

// Folds the vectors up the tree, block by block: each rank receives its children's blocks into scratch, folds them with
// its own in rank order and sends the result to its parent. `window` blocks of each child have room at a time; a block
// is not received before the one whose room it takes has been folded and passed on, which holds the children back.
plan::Schedule reduce_over(const Tree& tree, const plan::Problem& problem, uint64_t block, uint32_t window);

}  // namespace regroup::algorithms
