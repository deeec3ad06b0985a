// SPDX-License-Identifier: Apache-2.0
// Binomial scatter: each rank receives the parts of its subtree in one message (two where they pass the highest rank)
// and sends its children theirs. ⌈log2 P⌉ steps · a part is sent once for each level it descends · for short parts on
// many ranks. Inner ranks have to know the counts of their subtree: only where all ranks know all counts. Inner ranks
// receive into scratch. Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH",
// 2005.
#include <vector>

#include "algorithms/planners_rooted.h"
#include "algorithms/rooted_tree.h"
#include "algorithms/subtree_parts.h"

namespace regroup::algorithms {

using plan::Slice;
using plan::Space;
using plan::StepIndex;

plan::Schedule plan_scatter_binomial(const plan::Problem& problem) {
  const Rank size = problem.size;
  const Tree tree = binomial_tree(problem.rank, problem.root, size);
  const Rank relative = relative_rank(problem.rank, problem.root, size);
  plan::Schedule schedule(problem.rank, size);
  const Slice own = {Space::output, 0, 0, problem.count};
  if (tree.children.empty() && !tree.is_root()) {
    schedule.receive(tree.parent, own);
    return schedule;
  }

  const std::vector<PartRun> subtree = part_runs(problem, relative, binomial_subtree(relative, size));
  std::vector<StepIndex> arrived;
  if (!tree.is_root()) {
    schedule.add_scratch(total_count(subtree));
    for (const PartRun& run : subtree) {
      arrived.push_back(schedule.receive(tree.parent, {Space::scratch, 0, run.offset, run.count}));
    }
  }
  const auto when_arrived = [&](StepIndex step) {
    if (step != plan::kNoStep) schedule.also_after(step, arrived);
  };
  for (const Rank child : tree.children) {
    const Rank first = relative_rank(child, problem.root, size);
    const uint64_t behind = total_count(part_runs(problem, relative, first - relative));
    for (const PartRun& run : part_runs(problem, first, binomial_subtree(first, size))) {
      const Slice place = tree.is_root() ? Slice{Space::input, run.first, 0, run.count}
                                         : Slice{Space::scratch, 0, behind + run.offset, run.count};
      when_arrived(schedule.send(child, place));
    }
  }
  const Slice own_place =
      tree.is_root() ? Slice{Space::input, problem.rank, 0, problem.count} : Slice{Space::scratch, 0, 0, problem.count};
  when_arrived(schedule.copy(own_place, own));
  return schedule;
}

}  // namespace regroup::algorithms
