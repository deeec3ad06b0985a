// SPDX-License-Identifier: Apache-2.0
#include "algorithms/staging.h"

#include <algorithm>

namespace regroup::algorithms {

namespace {

// Blocks get smaller with the number of ranks, so that all slots stay in a cache.
uint64_t staged_block(const Problem& problem, uint64_t longest) {
  const uint64_t least = std::max({problem.block / 16, blocks_in(longest, kMostBlocks), uint64_t{1}});
  return std::max<uint64_t>(2 * problem.block / std::max<Rank>(problem.size, 2), least);
}

}  // namespace

Staging::Staging(Schedule& schedule, const Problem& problem, uint64_t pieces, uint64_t longest)
    : schedule_(schedule),
      block_(staged_block(problem, longest)),
      pieces_(pieces),
      first_(schedule.add_scratch(kSlots * pieces * block_)),
      awaits_(problem.size) {}

StepIndex Staging::reached(Rank peer, uint64_t round) {
  auto& awaits = awaits_[peer];
  const auto known = std::lower_bound(awaits.begin(), awaits.end(), round,
                                      [](const auto& entry, uint64_t wanted) { return entry.first < wanted; });
  if (known != awaits.end()) return known->second;
  const StepIndex before = awaits.empty() ? kNoStep : awaits.back().second;
  awaits.emplace_back(round, schedule_.await(peer, static_cast<Mark>(round + 1), {before}));
  return awaits.back().second;
}

StepIndex Staging::put_for(Rank peer, Slice block, uint64_t round) {
  if (block.count == 0) return kNoStep;
  const Slice to = slot(round, piece_for(peer, schedule_.rank()), block.count);
  const StepIndex put = schedule_.copy(block, to, {free_for(peer, round)});
  note_put(put);
  return put;
}

StepIndex Staging::fold(Slice own, Slice to, uint64_t round, std::span<const Rank> peers) {
  if (own.count == 0) return kNoStep;
  const Rank rank = schedule_.rank();
  std::vector<Source> sources(schedule_.size());
  std::vector<StepIndex> there;
  for (const Rank peer : peers) {
    there.push_back(reached(peer, round));
    sources[peer] = {peer, slot(round, piece_for(rank, peer), own.count)};
  }
  sources[rank] = {rank, own};
  const StepIndex folded = schedule_.get_reduce(sources, to, /*finish=*/true);
  schedule_.also_after(folded, there);
  note_taken(folded);
  return folded;
}

StepIndex Staging::put_for_all(Slice block, uint64_t round, uint64_t piece, std::span<const Rank> readers,
                               StepIndex first) {
  std::vector<StepIndex> free = {first};
  for (const Rank reader : readers) free.push_back(free_for(reader, round));
  const StepIndex put = schedule_.copy(block, slot(round, piece, block.count));
  schedule_.also_after(put, free);
  return put;
}

void Staging::publish(uint64_t round) {
  // What was taken in round r was noted after the mark of r, and is the oldest when that of r + kLag comes.
  std::vector<StepIndex>& oldest = taken_[kLag - 1];
  put_.insert(put_.end(), oldest.begin(), oldest.end());
  schedule_.notify(static_cast<Mark>(round + 1), put_);
  put_.clear();
  for (uint64_t age = kLag - 1; age > 0; --age) taken_[age].swap(taken_[age - 1]);
  taken_[0].clear();
}

void Staging::finish(std::span<const Rank> readers) {
  // The marks so far stand for what was taken before.
  std::vector<StepIndex> last;
  for (const auto& taken : taken_) last.insert(last.end(), taken.begin(), taken.end());
  schedule_.notify(kDone, last);
  for (const Rank reader : readers) {
    const auto& awaits = awaits_[reader];
    schedule_.await(reader, kDone, {awaits.empty() ? kNoStep : awaits.back().second});
  }
}

}  // namespace regroup::algorithms
