// SPDX-License-Identifier: Apache-2.0
// Ring all-reduce: every rank's vector is cut into P chunks; chunk c is folded along the ring from rank c to rank
// c − 1, and then passed on along it once more. Chunks travel in blocks, so that a block is folded while the next
// is on its way.
// Steps 2(P − 1) · bytes sent 2(P − 1)/P · n, the least possible · no scratch · best when bandwidth dominates.
// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_reduce_ring(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  if (size == 1) {
    reduce_alone(schedule, {Space::input, 0, 0, problem.count}, {Space::output, 0, 0, problem.count});
    return schedule;
  }
  const Rank next = (rank + 1) % size;
  const Rank previous = (rank + size - 1) % size;
  const uint64_t largest = share_of(problem.count, size, 0).count;
  const uint64_t block = block_for(problem, largest);
  const uint64_t blocks = blocks_in(largest, block);
  const auto at = [&](Space space, Rank chunk, uint64_t i) {
    const Share share = block_of(share_of(problem.count, size, chunk), block, i);
    return Slice{space, 0, share.offset, share.count};
  };
  // By chunk and block: the step that put its newest value there, and the one that sent a partial result away.
  std::vector<StepIndex> newest(size * blocks, kNoStep);
  std::vector<StepIndex> sent(size * blocks, kNoStep);

  for (Rank step = 0; step + 1 < size; ++step) {
    const Rank leaving = (rank + size - step) % size;
    const Rank coming = (leaving + size - 1) % size;
    const bool last = step + 2 == size;
    for (uint64_t i = 0; i < blocks; ++i) {
      const Slice partial = at(step == 0 ? Space::input : Space::output, leaving, i);
      sent[leaving * blocks + i] = schedule.send(next, partial, {newest[leaving * blocks + i]});
      const StepIndex copied = schedule.copy(at(Space::input, coming, i), at(Space::output, coming, i));
      newest[coming * blocks + i] =
          schedule.receive_reduce(previous, at(Space::output, coming, i), /*received_first=*/true, last, {copied});
    }
  }
  for (Rank step = 0; step + 1 < size; ++step) {
    const Rank leaving = (rank + 1 + size - step) % size;
    const Rank coming = (leaving + size - 1) % size;
    for (uint64_t i = 0; i < blocks; ++i) {
      schedule.send(next, at(Space::output, leaving, i), {newest[leaving * blocks + i]});
      newest[coming * blocks + i] =
          schedule.receive(previous, at(Space::output, coming, i), {sent[coming * blocks + i]});
    }
  }
  return schedule;
}

}  // namespace regroup::algorithms
