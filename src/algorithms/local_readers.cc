// SPDX-License-Identifier: Apache-2.0
#include "algorithms/local_readers.h"

#include "base/assert.h"

namespace regroup::algorithms {

const std::vector<Rank>& local_ranks(const plan::Problem& problem) {
  REGROUP_ASSERT(problem.topology.size() == problem.size);
  return problem.topology.members(problem.topology.host_of(problem.rank));
}

void end_of_local_reads(plan::Schedule& schedule, const plan::Problem& problem,
                        std::span<const plan::StepIndex> reads) {
  const std::vector<Rank>& local = local_ranks(problem);
  if (local.size() == 1) return;
  schedule.notify(plan::kDone, reads);
  for (const Rank reader : local) {
    if (reader != problem.rank) schedule.await(reader, plan::kDone);
  }
}

}  // namespace regroup::algorithms
