// SPDX-License-Identifier: Apache-2.0
// Hierarchical all_reduce, for H hosts of at least L ranks each: reads inside hosts, messages between them. The vector
// is cut into L lanes; lane i belongs to the i-th rank of every host (ranks beyond the L-th, on hosts that have more,
// own none).
//   1. The owner folds its lane over the inputs of its host, reading them.
//   2. The owners of one lane exchange shares: each folds one share over all hosts and sends the result to the others.
//   3. Each rank reads the finished lanes from the owners on its host.
// A lane goes in chunks of H blocks, so that the three overlap. 2 steps between hosts and 2 inside · each owner sends
// 2·(H − 1)/H·n/L, each rank reads up to 2·n · scratch: n/L.
// After Träff & Hunold, "Decomposing MPI collectives for exploiting multi-lane communication", 2020.
#include <algorithm>
#include <vector>

#include "algorithms/blocks.h"
#include "algorithms/local_readers.h"
#include "algorithms/planners_rooted.h"
#include "plan/partition.h"

namespace regroup::algorithms {

using plan::kNoStep;
using plan::Mark;
using plan::Schedule;
using plan::Share;
using plan::share_of;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::StepIndex;

namespace {

size_t lanes_of(const plan::Topology& topology) {
  size_t lanes = topology.members(0).size();
  for (uint32_t host = 1; host < topology.hosts(); ++host) lanes = std::min(lanes, topology.members(host).size());
  return lanes;
}

// Step 2 for one chunk of a lane, whose fold over this host is in the output once `folded` is done. Returns the steps
// after which the chunk holds the result.
std::vector<StepIndex> exchange_between_hosts(Schedule& schedule, const plan::Problem& problem, Share chunk,
                                              StepIndex folded) {
  const plan::Topology& topology = problem.topology;
  const uint32_t hosts = topology.hosts();
  const uint32_t here = topology.host_of(problem.rank);
  const Rank lane = topology.local_rank(problem.rank);
  const auto owner = [&](uint32_t host) { return topology.members(host)[lane]; };
  const auto share = [&](uint32_t host) {
    const Share part = share_of(chunk.count, hosts, host);
    return Slice{Space::output, 0, chunk.offset + part.offset, part.count};
  };

  const Slice mine = share(here);
  const uint64_t scratch = schedule.add_scratch(mine.count * (hosts - 1));
  std::vector<StepIndex> sent(hosts, kNoStep), arrived = {folded};
  std::vector<Source> sources(hosts);
  sources[here] = {problem.rank, mine};
  for (uint32_t distance = 1; distance < hosts; ++distance) {
    const uint32_t to = (here + distance) % hosts, from = (here + hosts - distance) % hosts;
    sent[to] = schedule.send(owner(to), share(to), {folded});
    const Slice place = {Space::scratch, 0, scratch + mine.count * (distance - 1), mine.count};
    arrived.push_back(schedule.receive(owner(from), place));
    sources[from] = {problem.rank, place};
  }
  const StepIndex finished = schedule.reduce(sources, mine, true);
  if (finished != kNoStep) schedule.also_after(finished, arrived);

  std::vector<StepIndex> ready = {finished};
  for (uint32_t distance = 1; distance < hosts; ++distance) {
    const uint32_t to = (here + distance) % hosts, from = (here + hosts - distance) % hosts;
    schedule.send(owner(to), mine, {finished});
    // The result takes the place of the partial one, which must have left.
    ready.push_back(schedule.receive(owner(from), share(from), {sent[from]}));
  }
  return ready;
}

}  // namespace

Schedule plan_all_reduce_hierarchical(const plan::Problem& problem) {
  const std::vector<Rank>& local = local_ranks(problem);
  const uint32_t hosts = problem.topology.hosts();
  const size_t lanes = lanes_of(problem.topology);
  const size_t own_lane = problem.topology.local_rank(problem.rank);
  const uint64_t chunk = problem.block * hosts;
  Schedule schedule(problem.rank, problem.size);
  if (problem.count == 0) return schedule;

  if (own_lane < lanes) {
    const Share lane = share_of(problem.count, lanes, own_lane);
    std::vector<Source> sources(local.size());
    Mark mark = 0;
    for_each_block(lane.count, chunk, [&](uint64_t offset, uint64_t count) {
      const uint64_t at = lane.offset + offset;
      for (size_t i = 0; i < local.size(); ++i) sources[i] = {local[i], Slice{Space::input, 0, at, count}};
      const StepIndex folded = schedule.get_reduce(sources, {Space::output, 0, at, count}, hosts == 1);
      std::vector<StepIndex> ready = {folded};
      if (hosts > 1) ready = exchange_between_hosts(schedule, problem, {at, count}, folded);
      if (local.size() > 1) schedule.notify(++mark, ready);
    });
  }

  // Also in place: an owner has read its lane of this rank's input before it publishes a mark for it.
  std::vector<StepIndex> reads;
  for (size_t distance = 0; distance < local.size(); ++distance) {
    const size_t other = (own_lane + distance) % local.size();
    if (other == own_lane || other >= lanes) continue;
    const Share lane = share_of(problem.count, lanes, other);
    Mark mark = 0;
    for_each_block(lane.count, chunk, [&](uint64_t offset, uint64_t count) {
      const Slice place = {Space::output, 0, lane.offset + offset, count};
      reads.push_back(schedule.get(local[other], place, place, {schedule.await(local[other], ++mark)}));
    });
  }
  end_of_local_reads(schedule, problem, reads);
  return schedule;
}

}  // namespace regroup::algorithms
