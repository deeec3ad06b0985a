// SPDX-License-Identifier: Apache-2.0
// Hierarchical all_to_all: parts for ranks of the same host are read by them, the others go as messages, by linear
// shift. A rank knows only its own counts, so messages between two hosts can't be joined. 1 step inside hosts, P − L
// between them, where L is the ranks of this host · every element moves once. Linear shift: Hofmann & Rünger,
// "In-place algorithms for the symmetric all-to-all exchange with MPI", 2013.
#include <vector>

#include "algorithms/local_readers.h"
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::Slice;
using plan::Space;

plan::Schedule plan_all_to_all_hierarchical(const plan::Problem& problem) {
  const plan::Topology& topology = problem.topology;
  const Rank rank = problem.rank;
  plan::Schedule schedule(rank, problem.size);
  std::vector<plan::StepIndex> reads;
  for (Rank distance = 0; distance < problem.size; ++distance) {
    const Rank to = (rank + distance) % problem.size;
    const Rank from = (rank + problem.size - distance) % problem.size;
    const Slice arriving = {Space::output, from, 0, problem.receive_counts[from]};
    if (!topology.same_host(rank, to)) schedule.send(to, {Space::input, to, 0, problem.counts[to]});
    if (from == rank) {
      schedule.copy({Space::input, rank, 0, arriving.count}, arriving);
    } else if (topology.same_host(rank, from)) {
      reads.push_back(schedule.get(from, {Space::input, rank, 0, arriving.count}, arriving));
    } else {
      schedule.receive(from, arriving);
    }
  }
  end_of_local_reads(schedule, problem, reads);
  return schedule;
}

}  // namespace regroup::algorithms
