// SPDX-License-Identifier: Apache-2.0
// Flat gather: every rank sends its part to the root. 1 step · the root receives all parts but its own, each once · for
// long parts, few ranks, or counts that only the root knows. Folklore.
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

using plan::Space;

plan::Schedule plan_gather_flat(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  const plan::Slice own = {Space::input, 0, 0, problem.count};
  if (problem.rank != problem.root) {
    schedule.send(problem.root, own);
    return schedule;
  }
  for (Rank relative = 1; relative < problem.size; ++relative) {
    const Rank from = absolute_rank(relative, problem.root, problem.size);
    schedule.receive(from, {Space::output, from, 0, problem.counts[from]});
  }
  schedule.copy(own, {Space::output, problem.rank, 0, problem.count});
  return schedule;
}

}  // namespace regroup::algorithms
