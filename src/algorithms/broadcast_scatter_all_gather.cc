// SPDX-License-Identifier: Apache-2.0
// Broadcast by scatter and all_gather: the vector is cut into P shares, scattered down a binomial tree, and the shares
// go round a ring. ⌈log2 P⌉ + P − 1 steps · no rank sends more than 2·n · for long vectors on many ranks. A share goes
// to no rank that holds it from the scatter. Barnett, Gupta, Payne, Shuler, van de Geijn & Watts, "Interprocessor
// collective communication library (InterCom)", 1994.
#include <vector>

#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"
#include "plan/partition.h"

namespace regroup::algorithms {

using plan::kNoStep;
using plan::Slice;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_broadcast_scatter_all_gather(const plan::Problem& problem) {
  const Rank size = problem.size;
  const Rank relative = relative_rank(problem.rank, problem.root, size);
  const Tree tree = binomial_tree(problem.rank, problem.root, size);
  plan::Schedule schedule(problem.rank, size);

  // Shares `first` to `first + shares` of the vector; share i belongs to relative rank i.
  const auto slice = [&](Rank first, Rank shares) {
    const plan::Share head = plan::share_of(problem.count, size, first);
    const plan::Share tail = plan::share_of(problem.count, size, first + shares - 1);
    return Slice{tree.is_root() ? Space::input : Space::output, 0, head.offset, tail.offset + tail.count - head.offset};
  };
  const auto scattered_to = [&](Rank share, Rank holder) {
    return share >= holder && share < holder + binomial_subtree(holder, size);
  };

  StepIndex scattered = kNoStep;
  if (!tree.is_root()) scattered = schedule.receive(tree.parent, slice(relative, binomial_subtree(relative, size)));
  for (const Rank child : tree.children) {
    const Rank first = relative_rank(child, problem.root, size);
    schedule.send(child, slice(first, binomial_subtree(first, size)), {scattered});
  }

  std::vector<StepIndex> here(size, scattered);
  const Rank next = relative + 1 == size ? 0 : relative + 1;
  const Rank before = relative == 0 ? size - 1 : relative - 1;
  for (Rank step = 0; step + 1 < size; ++step) {
    const Rank out = (relative + size - step) % size;
    const Rank in = (before + size - step) % size;
    if (!scattered_to(out, next)) schedule.send(absolute_rank(next, problem.root, size), slice(out, 1), {here[out]});
    if (scattered_to(in, relative)) continue;
    here[in] = schedule.receive(absolute_rank(before, problem.root, size), slice(in, 1));
  }
  if (tree.is_root()) schedule.copy({Space::input, 0, 0, problem.count}, {Space::output, 0, 0, problem.count});
  return schedule;
}

}  // namespace regroup::algorithms
