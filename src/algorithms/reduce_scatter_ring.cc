// SPDX-License-Identifier: Apache-2.0
// Ring reduce-scatter: the part of rank c is folded along the ring from rank c + 1 to rank c, in blocks, so that a
// block is folded while the next is on its way. Partial results lie in two buffers in turn, since the input is not
// this rank's to change. Any counts.
// Steps P − 1 · bytes sent (P − 1)/P · n for equal counts, the least possible · scratch twice the largest part.
// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#include <algorithm>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_reduce_scatter_ring(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const Slice output{Space::output, 0, 0, problem.counts[rank]};
  if (size == 1) {
    reduce_alone(schedule, {Space::input, 0, 0, problem.counts[0]}, output);
    return schedule;
  }
  const Rank next = (rank + 1) % size;
  const Rank previous = (rank + size - 1) % size;
  const uint64_t largest = *std::max_element(problem.counts.begin(), problem.counts.end());
  const uint64_t block = block_for(problem, largest);
  const uint64_t blocks = blocks_in(largest, block);
  const uint64_t buffers[] = {schedule.add_scratch(largest), schedule.add_scratch(largest)};
  std::vector<StepIndex> sent(2 * blocks, kNoStep);  // by buffer and block: the last step that sent from there
  std::vector<StepIndex> folded(blocks, kNoStep);  // by block: the step that folded the partial result to be sent next

  for (Rank step = 0; step + 1 < size; ++step) {
    const Rank leaving = (rank + 2 * size - step - 1) % size;
    const Rank coming = (leaving + size - 1) % size;
    const bool last = step + 2 == size;
    const Slice partial = step == 0 ? Slice{Space::input, leaving, 0, problem.counts[leaving]}
                                    : Slice{Space::scratch, 0, buffers[(step - 1) % 2], problem.counts[leaving]};
    const Slice own{Space::input, coming, 0, problem.counts[coming]};
    const Slice arriving{Space::scratch, 0, buffers[step % 2], own.count};
    for (uint64_t i = 0; i < blocks; ++i) {
      const StepIndex leaves = schedule.send(next, block_of(partial, block, i), {folded[i]});
      if (step > 0 && leaves != kNoStep) sent[(step - 1) % 2 * blocks + i] = leaves;
      const Slice buffer = block_of(arriving, block, i);
      const StepIndex received = schedule.receive(previous, buffer, {sent[step % 2 * blocks + i]});
      const Source operands[] = {{rank, buffer}, {rank, block_of(own, block, i)}};
      folded[i] = schedule.reduce(operands, last ? block_of(output, block, i) : buffer, last, {received});
    }
  }
  return schedule;
}

}  // namespace regroup::algorithms
