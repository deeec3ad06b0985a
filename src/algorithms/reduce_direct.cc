// SPDX-License-Identifier: Apache-2.0
// Direct reduce: the root reads every rank's input and folds all in one pass, in rank order. 1 step · the root reads
// (P − 1)·n · for short vectors where memory is shared. The others stay until the root has read. Folklore.
#include <vector>

#include "algorithms/blocks.h"
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Slice;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_reduce_direct(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  if (problem.count == 0) return schedule;
  if (problem.rank != problem.root) {
    schedule.await(problem.root, kDone);
    return schedule;
  }
  std::vector<plan::Source> sources(problem.size);
  std::vector<StepIndex> folded;
  for_each_block(problem.count, problem.block, [&](uint64_t offset, uint64_t count) {
    for (Rank rank = 0; rank < problem.size; ++rank) sources[rank] = {rank, Slice{Space::input, 0, offset, count}};
    folded.push_back(schedule.get_reduce(sources, {Space::output, 0, offset, count}, true));
  });
  if (problem.size > 1) schedule.notify(kDone, folded);
  return schedule;
}

}  // namespace regroup::algorithms
