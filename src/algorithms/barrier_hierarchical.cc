// SPDX-License-Identifier: Apache-2.0
// Hierarchical barrier, for H hosts: the lowest rank of each host, its leader, waits for the marks of the others there,
// joins a dissemination barrier of the leaders by messages, and publishes a mark that lets the others go. 2 steps
// inside hosts, ⌈log2 H⌉ between them · no data. Hensgen, Finkel & Manber, "Two algorithms for barrier
// synchronization", 1988 (leaders).
#include <vector>

#include "algorithms/local_readers.h"
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::StepIndex;

plan::Schedule plan_barrier_hierarchical(const plan::Problem& problem) {
  const plan::Topology& topology = problem.topology;
  const std::vector<Rank>& local = local_ranks(problem);
  plan::Schedule schedule(problem.rank, problem.size);
  if (local.front() != problem.rank) {
    schedule.notify(1);
    schedule.await(local.front(), 1);
    return schedule;
  }

  std::vector<StepIndex> heard;
  for (const Rank rank : local) {
    if (rank != problem.rank) heard.push_back(schedule.await(rank, 1));
  }
  const uint32_t hosts = topology.hosts(), here = topology.host_of(problem.rank);
  for (uint64_t distance = 1; distance < hosts; distance *= 2) {
    const uint32_t step = static_cast<uint32_t>(distance);
    const StepIndex sent = schedule.send_signal(topology.members((here + step) % hosts).front());
    schedule.also_after(sent, heard);
    heard.push_back(schedule.receive_signal(topology.members((here + hosts - step) % hosts).front()));
  }
  if (local.size() > 1) schedule.notify(1, heard);
  return schedule;
}

}  // namespace regroup::algorithms
