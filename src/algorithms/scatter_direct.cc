// SPDX-License-Identifier: Apache-2.0
// Direct scatter: every rank reads its part of the root's input. 1 step · each part is read once, all at the same time
// · where memory is shared. The root stays until all have read. Folklore.
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Space;

plan::Schedule plan_scatter_direct(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  const plan::Slice part = {Space::input, problem.rank, 0, problem.count};
  const plan::StepIndex read = schedule.get(problem.root, part, {Space::output, 0, 0, problem.count});
  if (problem.rank != problem.root) {
    if (problem.count > 0) schedule.notify(kDone, {read});
    return schedule;
  }
  for (Rank reader = 0; reader < problem.size; ++reader) {
    if (reader != problem.root && problem.counts[reader] > 0) schedule.await(reader, kDone);
  }
  return schedule;
}

}  // namespace regroup::algorithms
