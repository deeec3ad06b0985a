// SPDX-License-Identifier: Apache-2.0
// What the library would do for a call, worked out from the same table that it uses: the problem in elements, the
// facts, the algorithm and why, and all ranks' schedules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/tuning.h"
#include "contest/board.h"
#include "plan/cost.h"
#include "plan/problem.h"

namespace regroup::tool {

using contest::has_parts;

struct Call {
  Collective collective = Collective::barrier;
  Rank ranks = 1;
  Rank hosts = 1;
  Rank root = 0;
  uint64_t bytes = 0;  // of a rank's larger side
  DataType type = DataType::float32;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  std::string transport = "auto";
  bool mapped = false;  // memory from regroup::allocate
  bool reproducible = false;
  uint32_t cores = 0;    // of each host; 0: as many as this machine has, or with several hosts one for each rank
  uint32_t threads = 1;  // of each rank
  // all_to_all, gather, scatter: called in the form by which all ranks know the size.
  bool size_agreed = false;
  std::shared_ptr<const algorithms::Tuning> tuning;  // rows before the built-in ones; nullptr: none
};

// The number that REGROUP_THREADS names, or 1. A bad one is refused like a bad option.
uint32_t threads_of_environment();
// The table that REGROUP_TUNING names, or nullptr. A bad one is refused like a bad option.
std::shared_ptr<const algorithms::Tuning> tuning_of_environment();

// Elements of each rank's part, where there are parts, else of the vector: what `bytes` hold, and at least one.
uint64_t elements_of(const Call& call);
// What that comes to: bytes of the larger side.
uint64_t bytes_of(const Call& call);
plan::Problem problem_of(const Call& call, Rank rank);
algorithms::Facts facts_of(const Call& call);
algorithms::Selection selection_of(const Call& call);
// Whether the library does without a schedule, and this selection is for batches, and for calls that name it.
bool takes_eager_path(const Call& call);
std::vector<plan::Schedule> schedules_of(const algorithms::Algorithm& algorithm, const Call& call);
// By the model of plan/cost.h. Ranks share the cores of their host in turn.
plan::Cost cost_of(const algorithms::Algorithm& algorithm, const Call& call);

}  // namespace regroup::tool
