// SPDX-License-Identifier: Apache-2.0
// Hierarchical reduce_scatter, for H hosts: reads inside hosts, messages between them. On every host, each part has one
// worker: the owner of the part on its own host, elsewhere the local rank that corresponds to the owner's local rank
// (modulo).
//   1. The worker folds the part over the inputs of its host, reading them, and sends the result to the owner.
//   2. The owner folds what it has from each host.
// 1 step inside hosts and 1 between them · with even hosts each rank sends (H − 1)/H of n/L, where L is the ranks of a
// host. After Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", 2020.
#include <vector>

#include "algorithms/local_readers.h"
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::kNoStep;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_reduce_scatter_hierarchical(const plan::Problem& problem) {
  const plan::Topology& topology = problem.topology;
  const std::vector<Rank>& local = local_ranks(problem);
  const uint32_t hosts = topology.hosts();
  const uint32_t here = topology.host_of(problem.rank);
  const size_t own = topology.local_rank(problem.rank);
  plan::Schedule schedule(problem.rank, problem.size);

  std::vector<StepIndex> reads;
  const auto fold_local = [&](Rank part, Slice to, bool finish) {
    std::vector<Source> sources;
    for (const Rank rank : local) sources.push_back({rank, Slice{Space::input, part, 0, problem.counts[part]}});
    reads.push_back(schedule.get_reduce(sources, to, finish));
    return reads.back();
  };
  // The nearest host after this one first, so that not all send to the same host at the same time.
  for (uint32_t distance = 1; distance < hosts; ++distance) {
    const std::vector<Rank>& owners = topology.members((here + distance) % hosts);
    for (size_t i = own; i < owners.size(); i += local.size()) {
      const uint64_t count = problem.counts[owners[i]];
      const Slice partial = {Space::scratch, 0, schedule.add_scratch(count), count};
      schedule.send(owners[i], partial, {fold_local(owners[i], partial, false)});
    }
  }

  const uint64_t count = problem.counts[problem.rank];
  const Slice output = {Space::output, 0, 0, count};
  if (hosts == 1) {
    fold_local(problem.rank, output, true);
  } else {
    std::vector<Source> sources(hosts);
    std::vector<StepIndex> arrived;
    for (uint32_t distance = 0; distance < hosts; ++distance) {
      const uint32_t host = (here + hosts - distance) % hosts;
      const std::vector<Rank>& workers = topology.members(host);
      const Slice partial = {Space::scratch, 0, schedule.add_scratch(count), count};
      sources[host] = {problem.rank, partial};
      arrived.push_back(host == here ? fold_local(problem.rank, partial, false)
                                     : schedule.receive(workers[own % workers.size()], partial));
    }
    const StepIndex finished = schedule.reduce(sources, output, true);
    if (finished != kNoStep) schedule.also_after(finished, arrived);
  }
  end_of_local_reads(schedule, problem, reads);
  return schedule;
}

}  // namespace regroup::algorithms
