// SPDX-License-Identifier: Apache-2.0
// Direct all-gather, by reads of peers' memory: each rank fetches every peer's input, beginning with the rank
// after its own, so that not all read the same peer at once. In place too, since nobody replaces its own part. Any
// counts.
// Steps 1 · bytes read (P − 1)/P · n for equal counts · no scratch.
// Folklore.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_gather_direct(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const std::vector<Rank> peers = others(rank, problem.size);
  std::vector<StepIndex> reads;
  for (const Rank peer : peers) {
    const uint64_t count = problem.counts[peer];
    reads.push_back(schedule.get(peer, {Space::input, 0, 0, count}, {Space::output, peer, 0, count}));
  }
  const uint64_t own = problem.counts[rank];
  schedule.copy({Space::input, 0, 0, own}, {Space::output, rank, 0, own});
  end_reads(schedule, reads, own > 0 ? peers : std::vector<Rank>{});
  return schedule;
}

}  // namespace regroup::algorithms
