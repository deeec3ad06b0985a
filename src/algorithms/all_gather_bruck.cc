// SPDX-License-Identifier: Apache-2.0
// Bruck's all-gather: at distance d = 1, 2, 4, … rank r sends its first d parts, those of ranks r … r + d − 1, to
// rank r − d, and so has twice as many afterwards. The parts go to their places in the output at once, where the
// run of ranks may go over the end; then it is two messages, and nothing is rotated at the end. Any size, any
// counts.
// Steps ⌈log2 P⌉ · bytes sent (P − 1)/P · n for equal counts, the least possible · no scratch · best when latency
// dominates.
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", 1997.
#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_gather_bruck(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const auto parts = [&](Rank first, Rank end) {
    const auto begin = problem.counts.begin();
    return Slice{Space::output, first, 0, std::accumulate(begin + first, begin + end, uint64_t{0})};
  };
  const Slice input{Space::input, 0, 0, problem.counts[rank]};
  // What put the parts there: the own one, then those of each step in two runs.
  std::vector<StepIndex> present = {schedule.copy(input, parts(rank, rank + 1))};
  for (Rank distance = 1; distance < size; distance *= 2) {
    const Rank target = (rank + size - distance) % size;
    const Rank origin = (rank + distance) % size;
    const Rank number = std::min(distance, size - distance);
    // The runs of `number` ranks from this one and from the origin on: up to the end, and on from the beginning.
    const Rank rank_end = std::min(rank + number, size);
    const Rank origin_end = std::min(origin + number, size);
    if (number == 1) {
      schedule.send(target, input);
    } else {
      const auto needed = std::span(present).first(1 + 2 * std::bit_width(number - 1));
      send_after(schedule, target, parts(rank, rank_end), needed);
      send_after(schedule, target, parts(0, rank + number - rank_end), needed);
    }
    const StepIndex first = schedule.receive(origin, parts(origin, origin_end));
    const StepIndex second = schedule.receive(origin, parts(0, origin + number - origin_end));
    present.insert(present.end(), {first, second});
  }
  return schedule;
}

}  // namespace regroup::algorithms
