// SPDX-License-Identifier: Apache-2.0
// Binomial broadcast: in each step every rank that has the data sends it to one that has not. ⌈log2 P⌉ steps · the root
// sends ⌈log2 P⌉·n · for short vectors; longer ones go down the same tree in blocks.
// Johnsson & Ho, "Optimum broadcasting and personalized communication in hypercubes", 1989.
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

plan::Schedule plan_broadcast_binomial(const plan::Problem& problem) {
  return broadcast_over(binomial_tree(problem.rank, problem.root, problem.size), problem, problem.block);
}

}  // namespace regroup::algorithms
