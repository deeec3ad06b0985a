// SPDX-License-Identifier: Apache-2.0
// Direct gather: the root reads every rank's part. 1 step · the root reads all parts but its own · where memory is
// shared. The others stay until the root has read. Folklore.
#include <vector>

#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Space;

plan::Schedule plan_gather_direct(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  if (problem.rank != problem.root) {
    if (problem.count > 0) schedule.await(problem.root, kDone);
    return schedule;
  }
  std::vector<plan::StepIndex> reads;
  for (Rank rank = 0; rank < problem.size; ++rank) {
    const uint64_t count = problem.counts[rank];
    const plan::StepIndex read = schedule.get(rank, {Space::input, 0, 0, count}, {Space::output, rank, 0, count});
    if (rank != problem.root) reads.push_back(read);
  }
  if (problem.size > 1) schedule.notify(kDone, reads);
  return schedule;
}

}  // namespace regroup::algorithms
