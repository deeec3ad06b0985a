// SPDX-License-Identifier: Apache-2.0
// What planners share: cutting into blocks, the largest power of two in a group, and how one-sided schedules end.
// Only planners include it; it knows schedules, not any one collective.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/partition.h"
#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::kNoStep;
using plan::Mark;
using plan::Problem;
using plan::Schedule;
using plan::Share;
using plan::share_of;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::StepIndex;

// --- blocks: a share in pieces of `block` elements, the last one shorter.

// Bounds a schedule's length, and the marks of one that notifies for every block.
inline constexpr uint64_t kMostBlocks = 1024;

// The problem's block, or more where the largest share, of `largest` elements, would have more than kMostBlocks.
uint64_t block_for(const Problem& problem, uint64_t largest);

constexpr uint64_t blocks_in(uint64_t count, uint64_t block) { return count / block + (count % block != 0 ? 1 : 0); }

// The index-th block of a share; empty beyond its end, and so are the steps on it.
constexpr Share block_of(Share share, uint64_t block, uint64_t index) {
  if (index >= blocks_in(share.count, block)) return {share.offset + share.count, 0};
  const uint64_t rest = share.count - index * block;
  return {share.offset + index * block, rest < block ? rest : block};
}

// The index-th block of a slice.
constexpr Slice block_of(Slice slice, uint64_t block, uint64_t index) {
  const Share share = block_of(Share{slice.offset, slice.count}, block, index);
  return {slice.space, slice.part, share.offset, share.count};
}

// --- the largest power of two in a group. The first 2·extra ranks form pairs, even and odd; of each pair the odd one
// works for both. Workers have positions 0 … size − 1, in the order of their ranks.
struct PowerOfTwo {
  Rank size = 1;
  Rank extra = 0;

  explicit PowerOfTwo(Rank group);
  bool paired(Rank rank) const { return rank < 2 * extra; }
  bool works(Rank rank) const { return !paired(rank) || rank % 2 == 1; }
  Rank position(Rank rank) const { return paired(rank) ? rank / 2 : rank - extra; }
  Rank rank_at(Rank position) const { return position < extra ? 2 * position + 1 : position + extra; }
  // The first rank for which the worker at `position` works; `position` may be `size`, for the end.
  Rank first_served(Rank position) const { return position < extra ? 2 * position : position + extra; }
};

// --- steps

// A reduction in a group of one: even that is a fold, since some operators change what they fold.
StepIndex reduce_alone(Schedule& schedule, Slice from, Slice to);

// Schedule::send behind any number of steps.
StepIndex send_after(Schedule& schedule, Rank to, Slice from, std::span<const StepIndex> after);

// The end of a one-sided schedule. This rank has read peers' memory in `reads`, and says so if there are any; then it
// waits for each of `readers`, who may still be reading its own.
void end_reads(Schedule& schedule, std::span<const StepIndex> reads, std::span<const Rank> readers);

// All ranks but `rank`, from the next one on around to the one before.
std::vector<Rank> others(Rank rank, Rank size);
// Those of them whose count is not 0.
std::vector<Rank> others_with(std::span<const uint64_t> counts, Rank rank);

// Sends every other rank its share of this rank's input, and folds what all of them send of this rank's share into
// `to`, in rank order and in one fold: shares[p] is what rank p folds. By blocks, each folded once it has arrived from
// everyone. Needs shares of one size on all ranks, and scratch for size − 1 shares, which it adds.
struct Exchanged {
  uint64_t blocks;                // at most, of any share
  std::vector<StepIndex> sent;    // [peer · blocks + block]
  std::vector<StepIndex> folded;  // [block]
};
Exchanged exchange_and_fold(Schedule& schedule, std::span<const Slice> shares, Slice to, uint64_t block);

}  // namespace regroup::algorithms
