// SPDX-License-Identifier: Apache-2.0
// Direct all-reduce in two phases, by reads of peers' memory: each rank folds its share of all inputs, block by
// block, and publishes a mark for every block; the others then fetch the block, best while it is still in a shared
// cache. In place too: the only reader of a share of the inputs is the rank that replaces it, and the others
// replace theirs after its mark.
// Steps 2 phases, overlapping by blocks · bytes read n + (P − 1)/P · n · one fold in rank order · no scratch.
// The two-phase scheme of shared-memory reduce-scatter and all-gather: folklore.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_reduce_direct(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  if (problem.count == 0) return schedule;
  // All ranks cut all shares alike, so that block i of any rank is complete at its mark i + 1.
  const uint64_t largest = share_of(problem.count, size, 0).count;
  const uint64_t block = block_for(problem, largest);
  const uint64_t blocks = blocks_in(largest, block);
  const auto at = [&](Space space, Rank owner, uint64_t i) {
    const Share share = block_of(share_of(problem.count, size, owner), block, i);
    return Slice{space, 0, share.offset, share.count};
  };

  std::vector<StepIndex> reads;
  std::vector<Source> inputs(size);
  for (uint64_t i = 0; i < blocks; ++i) {
    for (Rank peer = 0; peer < size; ++peer) inputs[peer] = {peer, at(Space::input, rank, i)};
    const StepIndex folded = schedule.get_reduce(inputs, at(Space::output, rank, i), /*finish=*/true);
    if (size == 1 || folded == kNoStep) continue;
    reads = {folded};  // the marks are in order, so that the last fold stands for all
    schedule.notify(static_cast<Mark>(i + 1), {folded});
  }
  const std::vector<Rank> peers = others(rank, size);
  std::vector<StepIndex> last(size, kNoStep);  // a peer's marks come one after the other
  for (uint64_t i = 0; i < blocks; ++i) {
    for (const Rank peer : peers) {
      const Slice result = at(Space::output, peer, i);
      if (result.count == 0) continue;
      last[peer] = schedule.await(peer, static_cast<Mark>(i + 1), {last[peer]});
      reads.push_back(schedule.get(peer, result, result, {last[peer]}));
    }
  }
  end_reads(schedule, reads, peers);
  return schedule;
}

}  // namespace regroup::algorithms
