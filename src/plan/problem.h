// SPDX-License-Identifier: Apache-2.0
// What a planner may know: a collective as one rank sees it, in elements. No types, no addresses, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/topology.h"
#include "regroup/types.h"

namespace regroup::plan {

struct Problem {
  Collective collective = Collective::barrier;
  Rank rank = 0;
  Rank size = 1;
  Rank root = 0;  // broadcast, reduce, gather, scatter

  // Elements of the vector: broadcast, reduce, all_reduce. Of this rank's own part: gather, scatter.
  uint64_t count = 0;

  // Elements of each rank's part: all_gather, reduce_scatter (all ranks know them), gather and scatter (where
  // `counts_known`, on all ranks; else only at the root). all_to_all: what this rank sends to each.
  std::vector<uint64_t> counts;
  // all_to_all: what this rank receives from each.
  std::vector<uint64_t> receive_counts;
  // all_to_all: every rank sends every rank the same count, because the caller used the form with one count for all. An
  // agreed fact; that this rank's counts happen to be equal is not one.
  bool equal_counts = false;
  // gather, scatter: `counts` is given, and is the same, on every rank. An agreed fact.
  bool counts_known = false;

  // Which host each rank is on.
  Topology topology;

  // How many elements a pipelined planner moves at a time, at least 1. An agreed fact.
  uint64_t block = 65536;

  // A copy of this problem as `other` sees it; for the verifier and for pricing. all_to_all and unknown gather and
  // scatter counts can't be derived: those keep this rank's.
  Problem seen_by(Rank other) const {
    Problem copy = *this;
    copy.rank = other;
    return copy;
  }
};

}  // namespace regroup::plan
