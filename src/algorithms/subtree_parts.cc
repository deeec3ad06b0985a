// SPDX-License-Identifier: Apache-2.0
#include "algorithms/subtree_parts.h"

#include "algorithms/rooted_tree.h"
#include "base/assert.h"

namespace regroup::algorithms {

std::vector<PartRun> part_runs(const plan::Problem& problem, Rank relative, Rank ranks) {
  REGROUP_ASSERT(problem.counts.size() == problem.size);
  std::vector<PartRun> runs;
  uint64_t offset = 0;
  for (Rank i = 0; i < ranks; ++i) {
    const Rank rank = absolute_rank(relative + i, problem.root, problem.size);
    if (i == 0 || rank == 0) runs.push_back({rank, 0, offset, 0});
    ++runs.back().ranks;
    runs.back().count += problem.counts[rank];
    offset += problem.counts[rank];
  }
  return runs;
}

uint64_t total_count(const std::vector<PartRun>& runs) {
  return runs.empty() ? 0 : runs.back().offset + runs.back().count;
}

}  // namespace regroup::algorithms
