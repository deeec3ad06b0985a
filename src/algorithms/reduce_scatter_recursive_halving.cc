// SPDX-License-Identifier: Apache-2.0
// Recursive halving reduce-scatter: at distance P/2, P/4, …, 1 partners split the parts that both still serve,
// each sends the parts on the other's side and folds those on its own. Where P is no power of two, the even rank
// of each of the first pairs hands its whole input to the odd one, sits out, and is handed its part. Any counts.
// Steps log2 P (+ 2) · bytes sent (P − 1)/P · n for equal counts (pairs: + n) · scratch up to n · best when
// latency dominates.
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include <numeric>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {
namespace {

// The ranks `first` … `end` − 1, and where their parts begin among all elements.
struct Window {
  Rank first;
  Rank end;
  uint64_t offset;
  uint64_t count;
};

Window window_of(const Problem& problem, Rank first, Rank end) {
  const auto begin = problem.counts.begin();
  return {first, end, std::accumulate(begin, begin + first, uint64_t{0}),
          std::accumulate(begin + first, begin + end, uint64_t{0})};
}

// Partial results in scratch, of the elements from `first` on.
struct Partial {
  uint64_t scratch;
  uint64_t first;
  Slice of(const Window& window) const { return {Space::scratch, 0, scratch + (window.offset - first), window.count}; }
};

Slice input_of(const Window& window) { return {Space::input, window.first, 0, window.count}; }

}  // namespace

Schedule plan_reduce_scatter_recursive_halving(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const Slice output{Space::output, 0, 0, problem.counts[rank]};
  const Window all = window_of(problem, 0, size);
  const PowerOfTwo group(size);
  if (size == 1) {
    reduce_alone(schedule, input_of(all), output);
    return schedule;
  }
  if (!group.works(rank)) {
    const StepIndex sent = schedule.send(rank + 1, input_of(all));
    schedule.receive(rank + 1, output, {sent});
    return schedule;
  }
  Partial partial{0, 0};
  bool in_input = true;
  StepIndex last = kNoStep;
  if (group.paired(rank)) {
    partial.scratch = schedule.add_scratch(all.count);
    const StepIndex copied = schedule.copy(input_of(all), partial.of(all));
    last = schedule.receive_reduce(rank - 1, partial.of(all), /*received_first=*/true, /*finish=*/false, {copied});
    in_input = false;
  }
  const Rank position = group.position(rank);
  for (Rank distance = group.size / 2; distance > 0; distance /= 2) {
    // Both partners serve the positions from `begin` to begin + 2 · distance.
    const Rank begin = position & ~(2 * distance - 1);
    const Rank middle = group.first_served(begin + distance);
    const Window lower = window_of(problem, group.first_served(begin), middle);
    const Window upper = window_of(problem, middle, group.first_served(begin + 2 * distance));
    const bool keeps_lower = (position & distance) == 0;
    const Window& kept = keeps_lower ? lower : upper;
    const Window& given = keeps_lower ? upper : lower;
    const Rank peer = group.rank_at(position ^ distance);

    schedule.send(peer, in_input ? input_of(given) : partial.of(given), {last});
    StepIndex mine = last;
    if (in_input) {
      partial = {schedule.add_scratch(kept.count), kept.offset};
      mine = schedule.copy(input_of(kept), partial.of(kept));
      in_input = false;
    }
    last = schedule.receive_reduce(peer, partial.of(kept), peer < rank, /*finish=*/distance == 1, {mine});
  }
  if (group.paired(rank)) schedule.send(rank - 1, partial.of(window_of(problem, rank - 1, rank)), {last});
  schedule.copy(partial.of(window_of(problem, rank, rank + 1)), output, {last});
  return schedule;
}

}  // namespace regroup::algorithms
