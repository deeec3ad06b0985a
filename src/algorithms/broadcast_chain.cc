// SPDX-License-Identifier: Apache-2.0
// Pipelined chain broadcast: each rank passes every block on to the next as it arrives. P − 2 + n/block steps · every
// rank but the last sends n once · for long vectors and few ranks. Pjesivac-Grbovic et al., "Performance analysis of
// MPI collective operations", 2007 (there: pipeline).
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

plan::Schedule plan_broadcast_chain(const plan::Problem& problem) {
  return broadcast_over(chain_tree(problem.rank, problem.root, problem.size), problem, problem.block);
}

}  // namespace regroup::algorithms
