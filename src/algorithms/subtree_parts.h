// SPDX-License-Identifier: Apache-2.0
// Where the parts of a binomial subtree lie, for gather and scatter with counts that all ranks know.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"

namespace regroup::algorithms {

// The parts of ranks that follow one another: `ranks` of them from rank `first`, together `count` elements, which begin
// `offset` elements behind the first part of the subtree.
struct PartRun {
  Rank first = 0;
  Rank ranks = 0;
  uint64_t offset = 0;
  uint64_t count = 0;
};

// The parts of the `ranks` relative ranks from `relative` on, in that order: one run, or two where they pass the
// highest rank. Each run travels as a message of its own, since it is contiguous both in a buffer by rank and in one by
// relative rank.
std::vector<PartRun> part_runs(const plan::Problem& problem, Rank relative, Rank ranks);

uint64_t total_count(const std::vector<PartRun>& runs);

}  // namespace regroup::algorithms
