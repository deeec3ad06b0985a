// SPDX-License-Identifier: Apache-2.0
// How compositions for several hosts end: ranks of one host have read each other's memory.
#pragma once

#include <span>

#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::algorithms {

// The ranks on the host of `problem.rank`, ascending, itself among them.
const std::vector<Rank>& local_ranks(const plan::Problem& problem);

// Publishes that this rank has read all it will (after `reads`), and stays until the others of its host have.
void end_of_local_reads(plan::Schedule& schedule, const plan::Problem& problem, std::span<const plan::StepIndex> reads);

}  // namespace regroup::algorithms
