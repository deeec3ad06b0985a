// SPDX-License-Identifier: Apache-2.0
// Staged reduce-scatter, for memory that peers cannot map: in rounds of one block, each rank copies the block of every
// peer's part into its slot, and folds its own block from its input and every peer's slot, in rank order. Any counts;
// in place too.
// Rounds: of the longest part · bytes copied (P − 1)/P · n · one fold · scratch 4 slots of P − 1 blocks.
// The copy-in-copy-out scheme of shared-memory MPI: folklore.
#include <algorithm>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/staging.h"

namespace regroup::algorithms {

Schedule plan_reduce_scatter_staged(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const uint64_t longest = *std::max_element(problem.counts.begin(), problem.counts.end());
  if (longest == 0) return schedule;
  if (size == 1) {
    reduce_alone(schedule, {Space::input, 0, 0, longest}, {Space::output, 0, 0, longest});
    return schedule;
  }
  const std::vector<Rank> peers = others(rank, size);
  Staging staging(schedule, problem, size - 1, longest);
  const auto block_of_part = [&](Rank part, uint64_t t) {
    return block_of(Slice{Space::input, part, 0, problem.counts[part]}, staging.block(), t);
  };
  for (uint64_t t = 0; t < staging.rounds(longest); ++t) {
    for (const Rank peer : peers) staging.put_for(peer, block_of_part(peer, t), t);
    staging.publish(t);
    const Slice own = block_of_part(rank, t);
    staging.fold(own, {Space::output, 0, own.offset, own.count}, t, peers);
  }
  staging.finish(others_with(problem.counts, rank));
  return schedule;
}

}  // namespace regroup::algorithms
