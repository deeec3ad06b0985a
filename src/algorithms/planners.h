// SPDX-License-Identifier: Apache-2.0
// The planners of the collectives in which all ranks take the same part: pure functions from a problem to the rank's
// schedule. Each is in a file of its own, named like it, whose first comment gives steps, bytes and paper.
#pragma once

#include <span>

#include "algorithms/catalogue.h"
#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::algorithms {

plan::Schedule plan_all_gather_bruck(const plan::Problem& problem);
plan::Schedule plan_all_gather_direct(const plan::Problem& problem);
plan::Schedule plan_all_gather_recursive_doubling(const plan::Problem& problem);
plan::Schedule plan_all_gather_staged(const plan::Problem& problem);
plan::Schedule plan_all_gather_ring(const plan::Problem& problem);

plan::Schedule plan_all_reduce_direct(const plan::Problem& problem);
plan::Schedule plan_all_reduce_direct_one_phase(const plan::Problem& problem);
plan::Schedule plan_all_reduce_exchange(const plan::Problem& problem);
plan::Schedule plan_all_reduce_rabenseifner(const plan::Problem& problem);
plan::Schedule plan_all_reduce_recursive_doubling(const plan::Problem& problem);
plan::Schedule plan_all_reduce_ring(const plan::Problem& problem);
plan::Schedule plan_all_reduce_staged(const plan::Problem& problem);

plan::Schedule plan_all_to_all_bruck(const plan::Problem& problem);
plan::Schedule plan_all_to_all_direct(const plan::Problem& problem);
plan::Schedule plan_all_to_all_linear_shift(const plan::Problem& problem);
plan::Schedule plan_all_to_all_pairwise(const plan::Problem& problem);
plan::Schedule plan_all_to_all_staged(const plan::Problem& problem);

plan::Schedule plan_reduce_scatter_direct(const plan::Problem& problem);
plan::Schedule plan_reduce_scatter_exchange(const plan::Problem& problem);
plan::Schedule plan_reduce_scatter_recursive_halving(const plan::Problem& problem);
plan::Schedule plan_reduce_scatter_ring(const plan::Problem& problem);
plan::Schedule plan_reduce_scatter_staged(const plan::Problem& problem);

// The part of the catalogue that lists them: which problems each fits.
std::span<const Algorithm> symmetric_algorithms();

}  // namespace regroup::algorithms
