// SPDX-License-Identifier: Apache-2.0
// All-reduce by exchange: every rank sends each other one its share of the vector, folds its own share of all
// vectors in rank order and in one fold, and sends the result to everyone. No partial result travels, so it may be
// rounded once: for the half types, for averages of integers, and for results that must not depend on the
// transport.
// Steps 2(P − 1) messages, in two waves that overlap by blocks · bytes sent 2(P − 1)/P · n, a ring's · scratch (P
// − 1)/P · n.
// Pairwise exchange: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH",
// 2005.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_reduce_exchange(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  Schedule schedule(rank, size);
  const auto share = [&](Space space, Rank owner) {
    const Share cut = share_of(problem.count, size, owner);
    return Slice{space, 0, cut.offset, cut.count};
  };
  std::vector<Slice> shares;
  for (Rank owner = 0; owner < size; ++owner) shares.push_back(share(Space::input, owner));
  const uint64_t block = block_for(problem, shares[0].count);
  const Exchanged exchanged = exchange_and_fold(schedule, shares, share(Space::output, rank), block);

  for (uint64_t i = 0; i < exchanged.blocks; ++i) {
    for (Rank shift = 1; shift < size; ++shift) {
      const Rank target = (rank + shift) % size;
      const Rank origin = (rank + size - shift) % size;
      schedule.send(target, block_of(share(Space::output, rank), block, i), {exchanged.folded[i]});
      // In place, this is where the origin's share of the input was sent from.
      schedule.receive(origin, block_of(share(Space::output, origin), block, i),
                       {exchanged.sent[origin * exchanged.blocks + i]});
    }
  }
  return schedule;
}

}  // namespace regroup::algorithms
