// SPDX-License-Identifier: Apache-2.0
// Flat reduce: every rank sends its vector to the root, which folds all of them at once, in rank order, block by block.
// 1 step · the root receives (P − 1)·n and needs scratch for 2·(P − 1) blocks · for few ranks, and where the fold must
// be a single one. Folklore.
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

plan::Schedule plan_reduce_flat(const plan::Problem& problem) {
  return reduce_over(star_tree(problem.rank, problem.root, problem.size), problem, problem.block, 2);
}

}  // namespace regroup::algorithms
