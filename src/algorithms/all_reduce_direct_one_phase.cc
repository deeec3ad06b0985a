// SPDX-License-Identifier: Apache-2.0
// Direct all-reduce in one phase, by reads of peers' memory: every rank folds all inputs itself, in rank order,
// and so all compute the same bits. Not in place: the others read the input for as long as it takes them.
// Steps 1 · bytes read P · n · no scratch · best for small vectors, where a second phase costs more than folding
// everything.
// Folklore.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_reduce_direct_one_phase(const Problem& problem) {
  Schedule schedule(problem.rank, problem.size);
  if (problem.count == 0) return schedule;
  std::vector<Source> inputs;
  for (Rank peer = 0; peer < problem.size; ++peer) inputs.push_back({peer, {Space::input, 0, 0, problem.count}});
  const StepIndex folded = schedule.get_reduce(inputs, {Space::output, 0, 0, problem.count}, /*finish=*/true);
  if (problem.size > 1) end_reads(schedule, {&folded, 1}, others(problem.rank, problem.size));
  return schedule;
}

}  // namespace regroup::algorithms
