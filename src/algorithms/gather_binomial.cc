// SPDX-License-Identifier: Apache-2.0
// Binomial gather: each rank collects the parts of its subtree and sends them on in one message (two where they pass
// the highest rank). ⌈log2 P⌉ steps · a part is sent once for each level it rises · for short parts on many ranks.
// Inner ranks have to know the counts of their subtree: only where all ranks know all counts. Inner ranks collect in
// scratch. Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
#include <vector>

#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"
#include "algorithms/subtree_parts.h"

namespace regroup::algorithms {

using plan::Slice;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_gather_binomial(const plan::Problem& problem) {
  const Rank size = problem.size;
  const Tree tree = binomial_tree(problem.rank, problem.root, size);
  const Rank relative = relative_rank(problem.rank, problem.root, size);
  plan::Schedule schedule(problem.rank, size);
  const Slice own = {Space::input, 0, 0, problem.count};
  if (tree.children.empty() && !tree.is_root()) {
    schedule.send(tree.parent, own);
    return schedule;
  }

  const std::vector<PartRun> subtree = part_runs(problem, relative, binomial_subtree(relative, size));
  if (!tree.is_root()) schedule.add_scratch(total_count(subtree));
  const Slice own_place = tree.is_root() ? Slice{Space::output, problem.rank, 0, problem.count}
                                         : Slice{Space::scratch, 0, 0, problem.count};
  std::vector<StepIndex> collected = {schedule.copy(own, own_place)};
  for (const Rank child : tree.children) {
    const Rank first = relative_rank(child, problem.root, size);
    const uint64_t behind = total_count(part_runs(problem, relative, first - relative));
    for (const PartRun& run : part_runs(problem, first, binomial_subtree(first, size))) {
      const Slice place = tree.is_root() ? Slice{Space::output, run.first, 0, run.count}
                                         : Slice{Space::scratch, 0, behind + run.offset, run.count};
      collected.push_back(schedule.receive(child, place));
    }
  }
  if (tree.is_root()) return schedule;
  for (const PartRun& run : subtree) {
    const StepIndex sent = schedule.send(tree.parent, {Space::scratch, 0, run.offset, run.count});
    if (sent != plan::kNoStep) schedule.also_after(sent, collected);
  }
  return schedule;
}

}  // namespace regroup::algorithms
