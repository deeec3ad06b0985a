// SPDX-License-Identifier: Apache-2.0
// Recursive doubling all-reduce: at distance 1, 2, 4, … partners exchange all they have folded so far. Both put
// the lower rank's operand first, so that all ranks compute the same bits. Where P is no power of two, the even
// rank of each of the first pairs hands its vector to the odd one, sits out, and is handed the result.
// Steps log2 P (+ 2) · bytes sent log2(P) · n · scratch n · best when latency dominates.
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include <utility>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {

Schedule plan_all_reduce_recursive_doubling(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const Slice input{Space::input, 0, 0, problem.count};
  const Slice output{Space::output, 0, 0, problem.count};
  const PowerOfTwo group(problem.size);
  if (problem.size == 1) {
    reduce_alone(schedule, input, output);
    return schedule;
  }
  if (!group.works(rank)) {
    const StepIndex sent = schedule.send(rank + 1, input);
    schedule.receive(rank + 1, output, {sent});
    return schedule;
  }
  // A partner's operand arrives in scratch, since what this rank has folded is leaving at the same time.
  const Slice arrived{Space::scratch, 0, schedule.add_scratch(problem.count), problem.count};
  Slice held = input;
  StepIndex last = kNoStep;
  const auto fold = [&](Rank peer, StepIndex sent, bool finish) {
    const StepIndex received = schedule.receive(peer, arrived, {last});
    Source operands[] = {{rank, held}, {rank, arrived}};
    if (peer < rank) std::swap(operands[0], operands[1]);
    last = schedule.reduce(operands, output, finish, {sent, received});
    held = output;
  };

  if (group.paired(rank)) fold(rank - 1, kNoStep, false);
  for (Rank distance = 1; distance < group.size; distance *= 2) {
    const Rank peer = group.rank_at(group.position(rank) ^ distance);
    fold(peer, schedule.send(peer, held, {last}), distance * 2 == group.size);
  }
  if (group.paired(rank)) schedule.send(rank - 1, output, {last});
  return schedule;
}

}  // namespace regroup::algorithms
