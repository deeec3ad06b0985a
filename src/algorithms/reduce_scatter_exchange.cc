// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter by exchange: every rank sends each other one its part, and folds its own part of all inputs in
// rank order and in one fold, by blocks. No partial result travels, so it may be rounded once: for the half types,
// for averages of integers, and for results that must not depend on the transport. Any counts.
// Steps P − 1 messages, at once · bytes sent (P − 1)/P · n for equal counts, a ring's · scratch P − 1 times the
// own part.
// Pairwise exchange: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH",
// 2005.
#include <algorithm>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_reduce_scatter_exchange(const Problem& problem) {
  Schedule schedule(problem.rank, problem.size);
  std::vector<Slice> parts;
  for (Rank owner = 0; owner < problem.size; ++owner) parts.push_back({Space::input, owner, 0, problem.counts[owner]});
  const uint64_t largest = *std::max_element(problem.counts.begin(), problem.counts.end());
  const Slice output{Space::output, 0, 0, problem.counts[problem.rank]};
  exchange_and_fold(schedule, parts, output, block_for(problem, largest));
  return schedule;
}

}  // namespace regroup::algorithms
