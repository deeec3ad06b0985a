// SPDX-License-Identifier: Apache-2.0
// Direct barrier: every rank publishes a mark and reads those of all others. 1 step · no data · where memory is shared.
// Folklore.
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

plan::Schedule plan_barrier_direct(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  if (problem.size == 1) return schedule;
  schedule.notify(1);
  for (Rank distance = 1; distance < problem.size; ++distance) {
    schedule.await((problem.rank + distance) % problem.size, 1);
  }
  return schedule;
}

}  // namespace regroup::algorithms
