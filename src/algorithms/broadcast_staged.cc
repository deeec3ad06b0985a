// SPDX-License-Identifier: Apache-2.0
// Staged broadcast, for memory that peers cannot map: in rounds of one block, the root copies a block into its slot and
// the others take it from there. In place too.
// Rounds: n/block · bytes copied n at each rank · scratch 4 slots of one block.
// The copy-in-copy-out scheme of shared-memory MPI: folklore.
#include <vector>

#include "algorithms/planners_rooted.h"
#include "algorithms/staging.h"

namespace regroup::algorithms {

Schedule plan_broadcast_staged(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const Slice input = {Space::input, 0, 0, problem.count}, output = {Space::output, 0, 0, problem.count};
  if (problem.size == 1 || problem.count == 0) {
    if (rank == problem.root) schedule.copy(input, output);
    return schedule;
  }
  const std::vector<Rank> peers = others(rank, problem.size);
  Staging staging(schedule, problem, 1, problem.count);
  for (uint64_t t = 0; t < staging.rounds(problem.count); ++t) {
    const Slice to = block_of(output, staging.block(), t);
    if (rank == problem.root) {
      const Slice block = block_of(input, staging.block(), t);
      staging.note_put(staging.put_for_all(block, t, 0, peers));
      staging.publish(t);
      schedule.copy(block, to);
    } else {
      staging.publish(t);
      const StepIndex there = staging.reached(problem.root, t);
      staging.note_taken(schedule.get(problem.root, staging.slot(t, 0, to.count), to, {there}));
    }
  }
  staging.finish(rank == problem.root ? peers : std::vector<Rank>{});
  return schedule;
}

}  // namespace regroup::algorithms
