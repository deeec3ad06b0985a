// SPDX-License-Identifier: Apache-2.0
// Binomial reduce: partial results run up a binomial tree. ⌈log2 P⌉ steps · every rank but the root sends n once, the
// root receives ⌈log2 P⌉·n · for short vectors; longer ones go up the same tree in blocks. Thakur, Rabenseifner &
// Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

plan::Schedule plan_reduce_binomial(const plan::Problem& problem) {
  return reduce_over(binomial_tree(problem.rank, problem.root, problem.size), problem, problem.block, 4);
}

}  // namespace regroup::algorithms
