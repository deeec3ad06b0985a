// SPDX-License-Identifier: Apache-2.0
// Staged all-to-all, for memory that peers cannot map: in rounds of one block, each rank copies the block of every
// peer's part into its slot, and takes its own block from every peer's slot. Any counts; in place too, since a part is
// only replaced by blocks that come after its own have been copied away.
// Where no rank knows the sizes of all parts, blocks cannot grow with them, and schedules with them do.
// Rounds: of the longest part that a rank gives or takes · bytes copied 2 (P − 1)/P · n · scratch 4 slots of P − 1
// blocks.
// The copy-in-copy-out scheme of shared-memory MPI: folklore.
#include <algorithm>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/staging.h"

namespace regroup::algorithms {

Schedule plan_all_to_all_staged(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const std::vector<Rank> peers = others(rank, size);
  uint64_t longest = 0;
  for (const Rank peer : peers) longest = std::max({longest, problem.counts[peer], problem.receive_counts[peer]});
  const uint64_t own = problem.counts[rank];
  if (longest == 0) {
    schedule.copy({Space::input, rank, 0, own}, {Space::output, rank, 0, own});
    return schedule;
  }

  Staging staging(schedule, problem, size - 1, problem.equal_counts ? longest : 0);
  const auto give = [&](Rank peer, uint64_t t) {
    return block_of(Slice{Space::input, peer, 0, problem.counts[peer]}, staging.block(), t);
  };
  const auto take = [&](Rank peer, uint64_t t) {
    return block_of(Slice{Space::output, peer, 0, problem.receive_counts[peer]}, staging.block(), t);
  };
  std::vector<StepIndex> put(size, kNoStep);
  for (uint64_t t = 0; t < staging.rounds(longest); ++t) {
    for (const Rank peer : peers) {
      put[peer] = staging.put_for(peer, give(peer, t), t);
    }
    staging.publish(t);
    if (const Slice block = give(rank, t); block.count > 0) {
      schedule.copy(block, {Space::output, rank, block.offset, block.count});
    }
    for (const Rank peer : peers) {
      const Slice block = take(peer, t);
      if (block.count == 0) continue;
      const Slice at_peer = staging.slot(t, piece_for(rank, peer), block.count);
      staging.note_taken(schedule.get(peer, at_peer, block, {staging.reached(peer, t), put[peer]}));
    }
  }
  // What is left of a part of its own that is longer than all others.
  const Share rest = block_of(Share{0, own}, staging.rounds(longest) * staging.block(), 1);
  schedule.copy({Space::input, rank, rest.offset, own - rest.offset},
                {Space::output, rank, rest.offset, own - rest.offset});
  staging.finish(others_with(problem.counts, rank));
  return schedule;
}

}  // namespace regroup::algorithms
