// SPDX-License-Identifier: Apache-2.0
// Direct all-to-all, by reads of peers' memory: each rank fetches its part of every peer's input, beginning with
// the rank after its own, so that not all read the same peer at once. Any counts. Not in place: peers read the
// input until they are done.
// Steps 1 · bytes read (P − 1)/P · n, each once · no scratch.
// Folklore.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_to_all_direct(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  std::vector<StepIndex> reads;
  for (const Rank peer : others(rank, problem.size)) {
    const uint64_t count = problem.receive_counts[peer];
    reads.push_back(schedule.get(peer, {Space::input, rank, 0, count}, {Space::output, peer, 0, count}));
  }
  schedule.copy({Space::input, rank, 0, problem.counts[rank]}, {Space::output, rank, 0, problem.receive_counts[rank]});
  end_reads(schedule, reads, others_with(problem.counts, rank));
  return schedule;
}

}  // namespace regroup::algorithms
