// SPDX-License-Identifier: Apache-2.0
// Pipelined chain reduce: each rank adds its own block to what arrives from the rank behind it and passes it on towards
// the root. P − 2 + n/block steps · every rank but the root sends n once, every rank but the last receives n · for long
// vectors and few ranks. Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", 2007 (there:
// pipeline).
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

plan::Schedule plan_reduce_chain(const plan::Problem& problem) {
  return reduce_over(chain_tree(problem.rank, problem.root, problem.size), problem, problem.block, 4);
}

}  // namespace regroup::algorithms
