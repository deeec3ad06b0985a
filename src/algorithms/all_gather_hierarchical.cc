// SPDX-License-Identifier: Apache-2.0
// Hierarchical all_gather, for H hosts: messages between hosts, reads inside them.
//   1. Each rank sends its part to one rank of every other host: the one that corresponds to its local rank (modulo).
//   2. Each rank reads its neighbours' own parts, and what they received, host by host as it arrives.
// 1 step between hosts and 1 inside · each part enters a host once · each rank sends (H − 1) times its own part.
// After Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", 2020.
#include <vector>

#include "algorithms/local_readers.h"
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::kNoStep;
using plan::Slice;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_all_gather_hierarchical(const plan::Problem& problem) {
  const plan::Topology& topology = problem.topology;
  const std::vector<Rank>& local = local_ranks(problem);
  const uint32_t hosts = topology.hosts();
  const uint32_t here = topology.host_of(problem.rank);
  const size_t own = topology.local_rank(problem.rank);
  plan::Schedule schedule(problem.rank, problem.size);
  const auto input = [&](Rank rank) { return Slice{Space::input, 0, 0, problem.counts[rank]}; };
  const auto output = [&](Rank rank) { return Slice{Space::output, rank, 0, problem.counts[rank]}; };

  schedule.copy(input(problem.rank), output(problem.rank));
  // Mark d: the parts from the d-th host before this one are here.
  for (uint32_t distance = 1; distance < hosts; ++distance) {
    const std::vector<Rank>& to = topology.members((here + distance) % hosts);
    const std::vector<Rank>& from = topology.members((here + hosts - distance) % hosts);
    schedule.send(to[own % to.size()], input(problem.rank));
    std::vector<StepIndex> arrived;
    for (size_t i = own; i < from.size(); i += local.size()) {
      arrived.push_back(schedule.receive(from[i], output(from[i])));
    }
    if (local.size() > 1) schedule.notify(distance, arrived);
  }

  std::vector<StepIndex> reads;
  for (size_t shift = 1; shift < local.size(); ++shift) {
    const Rank neighbour = local[(own + shift) % local.size()];
    reads.push_back(schedule.get(neighbour, input(neighbour), output(neighbour)));
  }
  for (uint32_t distance = 1; distance < hosts; ++distance) {
    const std::vector<Rank>& from = topology.members((here + hosts - distance) % hosts);
    for (size_t shift = 1; shift < local.size(); ++shift) {
      const size_t worker = (own + shift) % local.size();
      if (worker >= from.size()) continue;
      const StepIndex arrived = schedule.await(local[worker], distance);
      for (size_t i = worker; i < from.size(); i += local.size()) {
        reads.push_back(schedule.get(local[worker], output(from[i]), output(from[i]), {arrived}));
      }
    }
  }
  end_of_local_reads(schedule, problem, reads);
  return schedule;
}

}  // namespace regroup::algorithms
