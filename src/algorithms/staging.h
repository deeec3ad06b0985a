// SPDX-License-Identifier: Apache-2.0
// What the "staged" planners share. For memory that peers cannot map: each rank copies what others need, block by
// block, into slots of its scratch, which peers do map, and the others take it from there: two copies through the cache
// instead of reads by the kernel. The slots are used in turn.
//
// Rounds. In round t a rank fills slot t mod kSlots and then publishes mark t + 1, which also says that it has taken
// what others had put into their slots in round t − kLag. So a rank may fill a slot again in round t once all who read
// it have published the mark of round t − kLag: they have then taken what it held since round t − kSlots. Ranks that
// have no more rounds publish kDone, which stands for every mark.
#pragma once

#include <vector>

#include "algorithms/planning.h"

namespace regroup::algorithms {

class Staging {
 public:
  static constexpr uint64_t kLag = 2;
  static constexpr uint64_t kSlots = 2 * kLag;

  // Each slot has room for `pieces` blocks. `longest`: of what is cut into blocks, where all ranks know it, so that
  // blocks can grow before there are too many; else 0.
  Staging(Schedule& schedule, const Problem& problem, uint64_t pieces, uint64_t longest);

  uint64_t block() const { return block_; }
  uint64_t rounds(uint64_t count) const { return blocks_in(count, block_); }

  // Where the piece of round `round` lies in its rank's scratch.
  Slice slot(uint64_t round, uint64_t piece, uint64_t count) const {
    return {Space::scratch, 0, first_ + (round % kSlots * pieces_ + piece) * block_, count};
  }

  // Where each other rank has a piece of a slot: copies a block for `peer` into its piece in `round`, and notes it;
  // kNoStep for an empty one.
  StepIndex put_for(Rank peer, Slice block, uint64_t round);
  // The fold of `own` and of what all `peers` put for this rank in `round`, in rank order, into `to`; notes it. kNoStep
  // where there is nothing to fold.
  StepIndex fold(Slice own, Slice to, uint64_t round, std::span<const Rank> peers);
  // Copies a block, which all `readers` read, into a piece of the slot of `round`, after `first`.
  StepIndex put_for_all(Slice block, uint64_t round, uint64_t piece, std::span<const Rank> readers,
                        StepIndex first = kNoStep);

  // The step that waits for `peer`'s mark of `round`; for each peer in rising order of rounds.
  StepIndex reached(Rank peer, uint64_t round);
  // The step that allows a slot that `peer` reads to be filled in `round`; kNoStep where that needs no wait.
  StepIndex free_for(Rank peer, uint64_t round) { return round < kSlots ? kNoStep : reached(peer, round - kLag); }

  // Publishes the mark of `round` after what this rank put into its slot, and after what it took: both by `note`d
  // steps.
  void note_put(StepIndex step) { keep(put_, step); }
  void note_taken(StepIndex step) { keep(taken_[0], step); }
  // The end of a round: its takes count kLag rounds later. Not every round needs to put something.
  void publish(uint64_t round);
  // The end: all takes are over; waits for `readers`.
  void finish(std::span<const Rank> readers);

 private:
  static void keep(std::vector<StepIndex>& steps, StepIndex step) {
    if (step != kNoStep) steps.push_back(step);
  }

  Schedule& schedule_;
  uint64_t block_;
  uint64_t pieces_;
  uint64_t first_;
  std::vector<std::vector<std::pair<uint64_t, StepIndex>>> awaits_;  // by peer: round, step
  std::vector<StepIndex> put_;
  std::vector<StepIndex> taken_[kLag];  // since the last mark, the one before, …
};

// The piece of a slot that `reader` reads, where each other rank has one.
constexpr uint64_t piece_for(Rank reader, Rank owner) { return reader < owner ? reader : reader - 1; }

}  // namespace regroup::algorithms
