// SPDX-License-Identifier: Apache-2.0
// Linear shift all-to-all: in its i-th step rank r exchanges with rank (i − r) mod P, which in that step exchanges
// with r. All steps are posted at once. Any counts. Not in place: a part may arrive while the one in its stead is
// still leaving.
// Steps P − 1, at once · bytes sent (P − 1)/P · n, each once · no scratch · the general one.
// Hofmann & Rünger, "In-place algorithms for the symmetric all-to-all exchange with MPI", 2013.
#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_to_all_linear_shift(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  for (Rank i = 0; i < size; ++i) {
    const Rank peer = (i + size - rank) % size;
    const Slice from{Space::input, peer, 0, problem.counts[peer]};
    const Slice to{Space::output, peer, 0, problem.receive_counts[peer]};
    if (peer == rank) {
      schedule.copy(from, to);
    } else {
      schedule.send(peer, from);
      schedule.receive(peer, to);
    }
  }
  return schedule;
}

}  // namespace regroup::algorithms
