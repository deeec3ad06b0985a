// SPDX-License-Identifier: Apache-2.0
// Dissemination barrier: in round k each rank signals the one 2^k further on and waits for the one 2^k before it, so
// that the number of ranks it has heard of doubles. ⌈log2 P⌉ steps · no data · any number of ranks. Hensgen, Finkel &
// Manber, "Two algorithms for barrier synchronization", 1988.
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

plan::Schedule plan_barrier_dissemination(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  plan::StepIndex heard = plan::kNoStep;
  for (uint64_t distance = 1; distance < problem.size; distance *= 2) {
    const Rank step = static_cast<Rank>(distance);
    schedule.send_signal((problem.rank + step) % problem.size, {heard});
    heard = schedule.receive_signal((problem.rank + problem.size - step) % problem.size, {heard});
  }
  return schedule;
}

}  // namespace regroup::algorithms
