// SPDX-License-Identifier: Apache-2.0
// Hierarchical broadcast, for H hosts: messages between hosts, reads inside them. Each host has a leader: on the root's
// host the root, elsewhere the lowest rank.
//   1. Blocks go from leader to leader: down a binomial tree if they are few, else along a chain.
//   2. The others of a host read each block from their leader when it has arrived (at the root's host at once).
// ⌈log2 H⌉ (binomial) or H − 2 + n/block (chain) steps between hosts and 1 inside · each host but the root's receives n
// once. Karonis, de Supinski, Foster, Gropp, Lusk & Bresnahan, "Exploiting hierarchy in parallel computer networks to
// optimize collective operation performance", 2000.
#include <vector>

#include "algorithms/blocks.h"
#include "algorithms/local_readers.h"
#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Mark;
using plan::Slice;
using plan::Space;
using plan::StepIndex;

namespace {

Rank leader_of(const plan::Problem& problem, uint32_t host) {
  return problem.topology.host_of(problem.root) == host ? problem.root : problem.topology.members(host).front();
}

// The leader's place among the leaders, in ranks of the group.
Tree tree_of_leaders(const plan::Problem& problem) {
  const plan::Topology& topology = problem.topology;
  const uint32_t here = topology.host_of(problem.rank), root = topology.host_of(problem.root);
  const uint64_t blocks = (problem.count + problem.block - 1) / problem.block;
  const bool chain = blocks > topology.hosts();
  Tree tree = chain ? chain_tree(here, root, topology.hosts()) : binomial_tree(here, root, topology.hosts());
  if (!tree.is_root()) tree.parent = leader_of(problem, tree.parent);
  for (Rank& child : tree.children) child = leader_of(problem, child);
  return tree;
}

plan::Schedule plan_leader(const plan::Problem& problem) {
  const Tree tree = tree_of_leaders(problem);
  const std::vector<Rank>& local = local_ranks(problem);
  plan::Schedule schedule(problem.rank, problem.size);
  Mark mark = 0;
  for_each_block(problem.count, problem.block, [&](uint64_t offset, uint64_t count) {
    const Slice block = {tree.is_root() ? Space::input : Space::output, 0, offset, count};
    StepIndex here = plan::kNoStep;
    if (!tree.is_root()) here = schedule.receive(tree.parent, block);
    for (const Rank child : tree.children) schedule.send(child, block, {here});
    if (!tree.is_root() && local.size() > 1) schedule.notify(++mark, {here});
  });
  if (tree.is_root()) schedule.copy({Space::input, 0, 0, problem.count}, {Space::output, 0, 0, problem.count});
  for (const Rank reader : local) {
    if (reader != problem.rank) schedule.await(reader, kDone);
  }
  return schedule;
}

}  // namespace

plan::Schedule plan_broadcast_hierarchical(const plan::Problem& problem) {
  const uint32_t here = problem.topology.host_of(problem.rank);
  const Rank leader = leader_of(problem, here);
  if (problem.count == 0) return plan::Schedule(problem.rank, problem.size);
  if (leader == problem.rank) return plan_leader(problem);

  plan::Schedule schedule(problem.rank, problem.size);
  std::vector<StepIndex> reads;
  if (leader == problem.root) {
    const Slice input = {Space::input, 0, 0, problem.count};
    reads.push_back(schedule.get(leader, input, {Space::output, 0, 0, problem.count}));
  } else {
    Mark mark = 0;
    for_each_block(problem.count, problem.block, [&](uint64_t offset, uint64_t count) {
      const Slice block = {Space::output, 0, offset, count};
      reads.push_back(schedule.get(leader, block, block, {schedule.await(leader, ++mark)}));
    });
  }
  schedule.notify(kDone, reads);
  return schedule;
}

}  // namespace regroup::algorithms
