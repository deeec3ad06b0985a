// SPDX-License-Identifier: Apache-2.0
// Flat broadcast: the root sends the whole vector to each rank. 1 step · the root sends (P − 1)·n, the others nothing ·
// for few ranks. Folklore.
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

plan::Schedule plan_broadcast_flat(const plan::Problem& problem) {
  // There is nobody to pass a block on to, so nothing is gained by cutting the vector.
  return broadcast_over(star_tree(problem.rank, problem.root, problem.size), problem, problem.count);
}

}  // namespace regroup::algorithms
