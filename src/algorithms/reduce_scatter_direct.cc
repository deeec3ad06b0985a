// SPDX-License-Identifier: Apache-2.0
// Direct reduce-scatter, by reads of peers' memory: each rank folds its part of all inputs, in rank order. In
// place too: the only reader of a rank's part is the rank that replaces it. Any counts.
// Steps 1 · bytes read n for equal counts · one fold · no scratch.
// Folklore.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_reduce_scatter_direct(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const uint64_t count = problem.counts[rank];
  std::vector<Source> inputs;
  for (Rank peer = 0; peer < problem.size; ++peer) inputs.push_back({peer, {Space::input, rank, 0, count}});
  const StepIndex folded = schedule.get_reduce(inputs, {Space::output, 0, 0, count}, /*finish=*/true);
  if (problem.size == 1) return schedule;
  // A rank that gets nothing reads nothing.
  end_reads(schedule, {&folded, 1}, others_with(problem.counts, rank));
  return schedule;
}

}  // namespace regroup::algorithms
