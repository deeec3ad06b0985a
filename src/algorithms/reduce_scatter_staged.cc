// SPDX-License-Identifier: Apache-2.0
// Staged reduce-scatter, for memory that peers cannot map: in rounds of one block, each rank copies the block of every
// peer's part into its slot, and folds its own block from its input and every peer's slot, in rank order. Any counts;
// in place too. Rounds: of the longest part · bytes copied (P − 1)/P · n · one fold · scratch 4 slots of P − 1 blocks.
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
  std::vector<Source> sources(size);
  std::vector<StepIndex> there;
  for (uint64_t t = 0; t < staging.rounds(longest); ++t) {
    for (const Rank peer : peers) {
      const Slice block = block_of_part(peer, t);
      if (block.count == 0) continue;
      const Slice slot = staging.slot(t, piece_for(peer, rank), block.count);
      staging.note_put(schedule.copy(block, slot, {staging.free_for(peer, t)}));
    }
    staging.publish(t);
    const Slice own = block_of_part(rank, t);
    if (own.count == 0) continue;
    there.clear();
    for (const Rank peer : peers) {
      there.push_back(staging.reached(peer, t));
      sources[peer] = {peer, staging.slot(t, piece_for(rank, peer), own.count)};
    }
    sources[rank] = {rank, own};
    const StepIndex folded = schedule.get_reduce(sources, {Space::output, 0, own.offset, own.count}, /*finish=*/true);
    schedule.also_after(folded, there);
    staging.note_taken(folded);
  }
  std::vector<Rank> readers;
  for (const Rank peer : peers) {
    if (problem.counts[peer] > 0) readers.push_back(peer);
  }
  staging.finish(readers);
  return schedule;
}

}  // namespace regroup::algorithms
