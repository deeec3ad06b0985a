// SPDX-License-Identifier: Apache-2.0
#include "algorithms/planning.h"

#include <algorithm>
#include <bit>

namespace regroup::algorithms {

uint64_t block_for(const Problem& problem, uint64_t largest) {
  return std::max(std::max<uint64_t>(problem.block, 1), blocks_in(largest, kMostBlocks));
}

PowerOfTwo::PowerOfTwo(Rank group) : size(std::bit_floor(group)), extra(group - size) {}

StepIndex reduce_alone(Schedule& schedule, Slice from, Slice to) {
  const Source source{schedule.rank(), from};
  return schedule.reduce({&source, 1}, to, /*finish=*/true);
}

StepIndex send_after(Schedule& schedule, Rank to, Slice from, std::span<const StepIndex> after) {
  const StepIndex step = schedule.send(to, from);
  if (step != kNoStep) schedule.also_after(step, after);
  return step;
}

void end_reads(Schedule& schedule, std::span<const StepIndex> reads, std::span<const Rank> readers) {
  const bool any = std::any_of(reads.begin(), reads.end(), [](StepIndex step) { return step != kNoStep; });
  if (any) schedule.notify(kDone, reads);
  for (const Rank reader : readers) schedule.await(reader, kDone);
}

std::vector<Rank> others(Rank rank, Rank size) {
  std::vector<Rank> ranks;
  ranks.reserve(size - 1);
  for (Rank shift = 1; shift < size; ++shift) ranks.push_back((rank + shift) % size);
  return ranks;
}

std::vector<Rank> others_with(std::span<const uint64_t> counts, Rank rank) {
  std::vector<Rank> ranks = others(rank, static_cast<Rank>(counts.size()));
  std::erase_if(ranks, [&](Rank other) { return counts[other] == 0; });
  return ranks;
}

Exchanged exchange_and_fold(Schedule& schedule, std::span<const Slice> shares, Slice to, uint64_t block) {
  const Rank rank = schedule.rank();
  const Rank size = schedule.size();
  uint64_t largest = 0;
  for (const Slice& share : shares) largest = std::max(largest, share.count);
  Exchanged done;
  done.blocks = blocks_in(largest, block);
  done.sent.assign(size * done.blocks, kNoStep);
  done.folded.assign(done.blocks, kNoStep);

  // What this rank folds: its own share where it lies, the others' in scratch.
  std::vector<Slice> contributions(size);
  for (Rank peer = 0; peer < size; ++peer) {
    if (peer == rank) {
      contributions[peer] = shares[rank];
    } else {
      contributions[peer] = {Space::scratch, 0, schedule.add_scratch(to.count), to.count};
    }
  }
  std::vector<StepIndex> received(done.blocks * size, kNoStep);
  for (uint64_t i = 0; i < done.blocks; ++i) {
    for (Rank shift = 1; shift < size; ++shift) {
      const Rank target = (rank + shift) % size;
      const Rank origin = (rank + size - shift) % size;
      done.sent[target * done.blocks + i] = schedule.send(target, block_of(shares[target], block, i));
      received[i * size + origin] = schedule.receive(origin, block_of(contributions[origin], block, i));
    }
  }
  std::vector<Source> sources(size);
  for (uint64_t i = 0; i < done.blocks; ++i) {
    for (Rank peer = 0; peer < size; ++peer) sources[peer] = {rank, block_of(contributions[peer], block, i)};
    done.folded[i] = schedule.reduce(sources, block_of(to, block, i), /*finish=*/true);
    if (done.folded[i] != kNoStep) schedule.also_after(done.folded[i], {received.data() + i * size, size});
  }
  return done;
}

}  // namespace regroup::algorithms
