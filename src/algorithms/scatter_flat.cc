// SPDX-License-Identifier: Apache-2.0
// Flat scatter: the root sends each rank its part. 1 step · the root sends all parts but its own, each once · for long
// parts, few ranks, or counts that only the root knows. Folklore.
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

using plan::Space;

plan::Schedule plan_scatter_flat(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  const plan::Slice own = {Space::output, 0, 0, problem.count};
  if (problem.rank != problem.root) {
    schedule.receive(problem.root, own);
    return schedule;
  }
  for (Rank relative = 1; relative < problem.size; ++relative) {
    const Rank to = absolute_rank(relative, problem.root, problem.size);
    schedule.send(to, {Space::input, to, 0, problem.counts[to]});
  }
  schedule.copy({Space::input, problem.rank, 0, problem.count}, own);
  return schedule;
}

}  // namespace regroup::algorithms
