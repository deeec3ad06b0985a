// SPDX-License-Identifier: Apache-2.0
#include "algorithms/rooted_tree.h"

#include <algorithm>

#include "algorithms/blocks.h"
#include "base/assert.h"

namespace regroup::algorithms {

using plan::kNoStep;
using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::StepIndex;

Tree star_tree(Rank rank, Rank root, Rank size) {
  Tree tree;
  if (rank != root) {
    tree.parent = root;
    return tree;
  }
  for (Rank relative = 1; relative < size; ++relative) tree.children.push_back(absolute_rank(relative, root, size));
  return tree;
}

Tree chain_tree(Rank rank, Rank root, Rank size) {
  Tree tree;
  const Rank relative = relative_rank(rank, root, size);
  if (relative > 0) tree.parent = absolute_rank(relative - 1, root, size);
  if (relative + 1 < size) tree.children.push_back(absolute_rank(relative + 1, root, size));
  return tree;
}

Rank binomial_subtree(Rank relative, Rank size) {
  if (relative == 0) return size;
  const Rank lowest_bit = relative & (~relative + 1);
  return std::min(lowest_bit, size - relative);
}

Tree binomial_tree(Rank rank, Rank root, Rank size) {
  Tree tree;
  const Rank relative = relative_rank(rank, root, size);
  if (relative > 0) tree.parent = absolute_rank(relative & (relative - 1), root, size);
  const Rank subtree = binomial_subtree(relative, size);
  for (Rank distance = 1; distance < subtree; distance *= 2) {
    tree.children.push_back(absolute_rank(relative + distance, root, size));
  }
  std::reverse(tree.children.begin(), tree.children.end());
  return tree;
}

Schedule broadcast_over(const Tree& tree, const plan::Problem& problem, uint64_t block) {
  Schedule schedule(problem.rank, problem.size);
  const Space held = tree.is_root() ? Space::input : Space::output;
  for_each_block(problem.count, block, [&](uint64_t offset, uint64_t count) {
    StepIndex here = kNoStep;
    if (!tree.is_root()) here = schedule.receive(tree.parent, {Space::output, 0, offset, count});
    for (const Rank child : tree.children) schedule.send(child, {held, 0, offset, count}, {here});
  });
  if (tree.is_root()) schedule.copy({Space::input, 0, 0, problem.count}, {Space::output, 0, 0, problem.count});
  return schedule;
}

Schedule reduce_over(const Tree& tree, const plan::Problem& problem, uint64_t block, uint32_t window) {
  REGROUP_ASSERT(window > 0);
  Schedule schedule(problem.rank, problem.size);
  std::vector<Rank> children = tree.children;
  std::sort(children.begin(), children.end());

  // One row of scratch for each block under way, in it one slot a child.
  const uint64_t slot = std::min(block, problem.count);
  const uint64_t row = slot * children.size();
  const uint64_t rows = slot == 0 ? 0 : std::min<uint64_t>(window, (problem.count - 1) / slot + 1);
  schedule.add_scratch(row * rows);
  std::vector<StepIndex> row_free(window, kNoStep);
  std::vector<StepIndex> arrived;
  std::vector<Source> sources;

  uint64_t index = 0;
  for_each_block(problem.count, block, [&](uint64_t offset, uint64_t count) {
    const uint64_t at_row = index++ % window;
    const Slice own = {Space::input, 0, offset, count};
    if (children.empty() && !tree.is_root()) {
      schedule.send(tree.parent, own);
      return;
    }
    arrived.clear();
    sources.clear();
    for (size_t child = 0; child < children.size(); ++child) {
      const Slice place = {Space::scratch, 0, at_row * row + child * slot, count};
      arrived.push_back(schedule.receive(children[child], place, {row_free[at_row]}));
      if (sources.size() == child && children[child] > problem.rank) sources.push_back({problem.rank, own});
      sources.push_back({problem.rank, place});
    }
    if (sources.size() == children.size()) sources.push_back({problem.rank, own});

    // What goes on to the parent is built in the first child's slot.
    const Slice partial = {Space::scratch, 0, at_row * row, count};
    const Slice to = tree.is_root() ? Slice{Space::output, 0, offset, count} : partial;
    row_free[at_row] = schedule.reduce(sources, to, tree.is_root());
    schedule.also_after(row_free[at_row], arrived);
    if (!tree.is_root()) row_free[at_row] = schedule.send(tree.parent, partial, {row_free[at_row]});
  });
  return schedule;
}

}  // namespace regroup::algorithms
