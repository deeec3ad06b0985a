// SPDX-License-Identifier: Apache-2.0
// Direct broadcast: every rank reads the root's input. 1 step · n read by each of P − 1 ranks, all at once · where
// memory is shared. The root stays until all have read. Folklore.
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Space;

plan::Schedule plan_broadcast_direct(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  if (problem.count == 0) return schedule;
  const plan::Slice input = {Space::input, 0, 0, problem.count};
  const plan::Slice output = {Space::output, 0, 0, problem.count};
  if (problem.rank != problem.root) {
    schedule.notify(kDone, {schedule.get(problem.root, input, output)});
    return schedule;
  }
  schedule.copy(input, output);
  for (Rank reader = 0; reader < problem.size; ++reader) {
    if (reader != problem.root) schedule.await(reader, kDone);
  }
  return schedule;
}

}  // namespace regroup::algorithms
