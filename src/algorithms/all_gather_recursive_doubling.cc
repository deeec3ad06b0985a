// SPDX-License-Identifier: Apache-2.0
// Recursive doubling all-gather, for a power of two: at distance 1, 2, 4, … partners exchange all parts they have,
// which are neighbours in the output. Any counts.
// Steps log2 P · bytes sent (P − 1)/P · n for equal counts, the least possible · no scratch · best when latency
// dominates.
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include <numeric>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_gather_recursive_doubling(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const auto parts = [&](Rank first, Rank number) {
    const auto begin = problem.counts.begin() + first;
    return Slice{Space::output, first, 0, std::accumulate(begin, begin + number, uint64_t{0})};
  };
  const Slice input{Space::input, 0, 0, problem.counts[rank]};
  std::vector<StepIndex> present = {schedule.copy(input, parts(rank, 1))};
  for (Rank distance = 1; distance < problem.size; distance *= 2) {
    const Rank peer = rank ^ distance;
    const Rank mine = rank & ~(distance - 1);
    const Rank theirs = mine ^ distance;
    if (distance == 1) {
      schedule.send(peer, input);
    } else {
      send_after(schedule, peer, parts(mine, distance), present);
    }
    present.push_back(schedule.receive(peer, parts(theirs, distance)));
  }
  return schedule;
}

}  // namespace regroup::algorithms
