// SPDX-License-Identifier: Apache-2.0
// Ring all-gather: every rank's part goes once along the ring, in blocks, so that a block is passed on while the
// next arrives. Any counts.
// Steps P − 1 · bytes sent (P − 1)/P · n for equal counts, the least possible · no scratch · best when bandwidth
// dominates.
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience", 2007.
#include <algorithm>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_gather_ring(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const uint64_t largest = *std::max_element(problem.counts.begin(), problem.counts.end());
  const uint64_t block = block_for(problem, largest);
  const uint64_t blocks = blocks_in(largest, block);
  std::vector<StepIndex> arrived(blocks, kNoStep);  // by block of the part that is to be passed on next
  for (Rank step = 0; step + 1 < size; ++step) {
    const Rank leaving = (rank + size - step) % size;
    const Rank coming = (leaving + size - 1) % size;
    const Slice from = step == 0 ? Slice{Space::input, 0, 0, problem.counts[rank]}
                                 : Slice{Space::output, leaving, 0, problem.counts[leaving]};
    const Slice to{Space::output, coming, 0, problem.counts[coming]};
    for (uint64_t i = 0; i < blocks; ++i) {
      schedule.send((rank + 1) % size, block_of(from, block, i), {arrived[i]});
      arrived[i] = schedule.receive((rank + size - 1) % size, block_of(to, block, i));
    }
  }
  schedule.copy({Space::input, 0, 0, problem.counts[rank]}, {Space::output, rank, 0, problem.counts[rank]});
  return schedule;
}

}  // namespace regroup::algorithms
