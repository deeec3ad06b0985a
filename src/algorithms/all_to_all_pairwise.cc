// SPDX-License-Identifier: Apache-2.0
// Pairwise all-to-all: in step k rank r sends to rank r + k and receives from rank r − k; a step starts when the
// one before is done, so that no rank is sent to by many at once. Any counts. Not in place, as a rank's sends and
// receives of one step concern different parts and those of a later step may arrive first.
// Steps P − 1, one after the other · bytes sent (P − 1)/P · n, each once · no scratch · for networks that congest.
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_to_all_pairwise(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  schedule.copy({Space::input, rank, 0, problem.counts[rank]}, {Space::output, rank, 0, problem.receive_counts[rank]});
  StepIndex last_sent = kNoStep;
  StepIndex last_received = kNoStep;
  for (Rank step = 1; step < size; ++step) {
    const Rank target = (rank + step) % size;
    const Rank origin = (rank + size - step) % size;
    const StepIndex sent =
        schedule.send(target, {Space::input, target, 0, problem.counts[target]}, {last_sent, last_received});
    const StepIndex received = schedule.receive(origin, {Space::output, origin, 0, problem.receive_counts[origin]},
                                                {last_sent, last_received});
    // A step in which nothing is to be moved does not separate the steps around it.
    if (sent == kNoStep && received == kNoStep) continue;
    last_sent = sent;
    last_received = received;
  }
  return schedule;
}

}  // namespace regroup::algorithms
