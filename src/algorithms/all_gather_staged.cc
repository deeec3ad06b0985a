// SPDX-License-Identifier: Apache-2.0
// Staged all-gather, for memory that peers cannot map: in rounds of one block, each rank copies a block of its part
// into its slot, and takes a block from every peer's slot. Any counts; in place too.
// Rounds: of the longest part · bytes copied n/P + (P − 1)/P · n for equal counts · scratch 4 slots of one block.
// The copy-in-copy-out scheme of shared-memory MPI: folklore.
#include <algorithm>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/staging.h"

namespace regroup::algorithms {

Schedule plan_all_gather_staged(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const std::vector<Rank> peers = others(rank, problem.size);
  const uint64_t own = problem.counts[rank];
  const uint64_t longest = *std::max_element(problem.counts.begin(), problem.counts.end());
  if (problem.size == 1) schedule.copy({Space::input, 0, 0, own}, {Space::output, 0, 0, own});
  if (problem.size == 1 || longest == 0) return schedule;

  Staging staging(schedule, problem, 1, longest);
  for (uint64_t t = 0; t < staging.rounds(longest); ++t) {
    const Slice block = block_of(Slice{Space::input, 0, 0, own}, staging.block(), t);
    if (block.count > 0) staging.note_put(staging.put_for_all(block, t, 0, peers));
    staging.publish(t);
    schedule.copy(block, {Space::output, rank, block.offset, block.count});
    for (const Rank peer : peers) {
      const Slice to = block_of(Slice{Space::output, peer, 0, problem.counts[peer]}, staging.block(), t);
      if (to.count == 0) continue;
      staging.note_taken(schedule.get(peer, staging.slot(t, 0, to.count), to, {staging.reached(peer, t)}));
    }
  }
  staging.finish(own > 0 ? peers : std::vector<Rank>{});
  return schedule;
}

}  // namespace regroup::algorithms
