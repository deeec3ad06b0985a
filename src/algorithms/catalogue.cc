// SPDX-License-Identifier: Apache-2.0
#include "algorithms/catalogue.h"

#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

using plan::Problem;
using Reads = Algorithm::Reads;

std::span<const Algorithm> catalogue() {
  static const std::vector<Algorithm> all = [] {
    std::vector<Algorithm> rows;
    for (const std::span<const Algorithm> list : {symmetric_algorithms(), rooted_algorithms()}) {
      rows.insert(rows.end(), list.begin(), list.end());
    }
    return rows;
  }();
  return all;
}

const Algorithm* find(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

bool usable(const Algorithm& algorithm, const Problem& problem, const Facts& facts) {
  const bool inside_hosts = facts.one_sided_inside_hosts || facts.one_sided_everywhere;
  if (algorithm.collective != problem.collective) return false;
  if (algorithm.reads == Reads::everywhere && !facts.one_sided_everywhere) return false;
  if (algorithm.reads == Reads::inside_hosts && !inside_hosts) return false;
  if (facts.single_fold_needed && !algorithm.single_fold) return false;
  return algorithm.fits(problem);
}

}  // namespace regroup::algorithms
