// SPDX-License-Identifier: Apache-2.0
// A problem for tests of selection: ten elements of everything.
#pragma once

#include "plan/problem.h"

namespace regroup::algorithms {

inline plan::Problem problem_of(Collective collective, const plan::Topology& topology) {
  plan::Problem problem;
  problem.collective = collective;
  problem.size = topology.size();
  problem.topology = topology;
  problem.count = 10;
  problem.counts.assign(problem.size, 10);
  problem.receive_counts = problem.counts;
  return problem;
}

}  // namespace regroup::algorithms
