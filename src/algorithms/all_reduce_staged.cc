// SPDX-License-Identifier: Apache-2.0
// Staged all-reduce, for memory that peers cannot map: in rounds of one block, each rank copies the block of every
// peer's share into its slot, folds the block of its own share from its input and every peer's slot, in rank order,
// copies the result into the slot of a later round, and takes the others' results from theirs. In place too: a share is
// only replaced by results of blocks that have been copied away.
// Rounds: of a share, and 2 · bytes copied 2n · one fold of n · scratch 4 slots of P blocks.
// The copy-in-copy-out scheme of shared-memory MPI: folklore.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/staging.h"

namespace regroup::algorithms {

Schedule plan_all_reduce_staged(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  if (problem.count == 0) return schedule;
  const Slice whole = {Space::input, 0, 0, problem.count};
  if (size == 1) {
    reduce_alone(schedule, whole, {Space::output, 0, 0, problem.count});
    return schedule;
  }
  const std::vector<Rank> peers = others(rank, size);
  const uint64_t longest = share_of(problem.count, size, 0).count;
  Staging staging(schedule, problem, size, longest);
  const uint64_t result_piece = size - 1;  // the last piece of a slot
  const auto at = [&](Space space, Rank owner, uint64_t t) {
    const Share block = block_of(share_of(problem.count, size, owner), staging.block(), t);
    return Slice{space, 0, block.offset, block.count};
  };
  const uint64_t rounds = staging.rounds(longest);

  std::vector<StepIndex> put(size * Staging::kSlots, kNoStep), folded(Staging::kSlots, kNoStep);
  const auto put_in = [&](Rank peer, uint64_t t) -> StepIndex& {
    return put[peer * Staging::kSlots + t % Staging::kSlots];
  };
  // The result of round t is shown with the marks of round t + kLag.
  for (uint64_t t = 0; t < rounds + Staging::kLag; ++t) {
    for (const Rank peer : peers) {
      put_in(peer, t) = staging.put_for(peer, at(Space::input, peer, t), t);
    }
    const uint64_t shown = t - Staging::kLag;
    if (t >= Staging::kLag && at(Space::output, rank, shown).count > 0) {
      const StepIndex fold = folded[shown % Staging::kSlots];
      staging.note_put(staging.put_for_all(at(Space::output, rank, shown), t, result_piece, peers, fold));
    }
    staging.publish(t);
    folded[t % Staging::kSlots] = staging.fold(at(Space::input, rank, t), at(Space::output, rank, t), t, peers);
    if (t < Staging::kLag) continue;
    for (const Rank peer : peers) {
      const Slice result = at(Space::output, peer, shown);
      if (result.count == 0) continue;
      const Slice at_peer = staging.slot(t, result_piece, result.count);
      staging.note_taken(schedule.get(peer, at_peer, result, {staging.reached(peer, t), put_in(peer, shown)}));
    }
  }
  staging.finish(peers);
  return schedule;
}

}  // namespace regroup::algorithms
