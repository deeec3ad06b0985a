// SPDX-License-Identifier: Apache-2.0
// Direct reduce by shares: every rank folds its share of the vector over all inputs, in rank order and in one pass; the
// root then reads the shares. 2 steps · each rank reads (P − 1)/P·n, the root as much again · for long vectors where
// memory is shared: the work is divided by P. Folklore.
#include <vector>

#include "algorithms/planners_rooted.h"
#include "plan/partition.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Slice;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_reduce_direct_shares(const plan::Problem& problem) {
  plan::Schedule schedule(problem.rank, problem.size);
  if (problem.count == 0) return schedule;
  const bool is_root = problem.rank == problem.root;

  const plan::Share own = plan::share_of(problem.count, problem.size, problem.rank);
  std::vector<plan::Source> sources(problem.size);
  for (Rank rank = 0; rank < problem.size; ++rank) {
    sources[rank] = {rank, Slice{Space::input, 0, own.offset, own.count}};
  }
  const Slice folded_to = is_root ? Slice{Space::output, 0, own.offset, own.count}
                                  : Slice{Space::scratch, 0, schedule.add_scratch(own.count), own.count};
  std::vector<StepIndex> reads = {schedule.get_reduce(sources, folded_to, true)};

  // A rank other than the root reads nothing after its fold, so one mark says both that its share is ready and that it
  // is done.
  if (is_root) {
    for (Rank rank = 0; rank < problem.size; ++rank) {
      if (rank == problem.root) continue;
      // Also in place: `rank` has read this region of the root's input before it published the mark.
      const plan::Share share = plan::share_of(problem.count, problem.size, rank);
      const StepIndex ready = schedule.await(rank, kDone);
      const Slice to = {Space::output, 0, share.offset, share.count};
      reads.push_back(schedule.get(rank, {Space::scratch, 0, 0, share.count}, to, {ready}));
    }
  }
  if (problem.size > 1) schedule.notify(kDone, reads);
  for (Rank rank = 0; rank < problem.size && !is_root; ++rank) {
    if (rank != problem.rank) schedule.await(rank, kDone);
  }
  return schedule;
}

}  // namespace regroup::algorithms
