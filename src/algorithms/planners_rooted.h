// SPDX-License-Identifier: Apache-2.0
// The planners of broadcast, reduce, gather, scatter and barrier, and the compositions for several hosts. Each is
// described in the file that is named like it (broadcast_binomial.cc has plan_broadcast_binomial).
#pragma once

#include <span>

#include "algorithms/catalogue.h"
#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::algorithms {

plan::Schedule plan_barrier_direct(const plan::Problem& problem);
plan::Schedule plan_barrier_dissemination(const plan::Problem& problem);

plan::Schedule plan_broadcast_binomial(const plan::Problem& problem);
plan::Schedule plan_broadcast_chain(const plan::Problem& problem);
plan::Schedule plan_broadcast_direct(const plan::Problem& problem);
plan::Schedule plan_broadcast_flat(const plan::Problem& problem);
plan::Schedule plan_broadcast_scatter_all_gather(const plan::Problem& problem);
plan::Schedule plan_broadcast_staged(const plan::Problem& problem);

plan::Schedule plan_reduce_binomial(const plan::Problem& problem);
plan::Schedule plan_reduce_chain(const plan::Problem& problem);
plan::Schedule plan_reduce_direct(const plan::Problem& problem);
plan::Schedule plan_reduce_direct_shares(const plan::Problem& problem);
plan::Schedule plan_reduce_flat(const plan::Problem& problem);

plan::Schedule plan_gather_binomial(const plan::Problem& problem);
plan::Schedule plan_gather_direct(const plan::Problem& problem);
plan::Schedule plan_gather_flat(const plan::Problem& problem);

plan::Schedule plan_scatter_binomial(const plan::Problem& problem);
plan::Schedule plan_scatter_direct(const plan::Problem& problem);
plan::Schedule plan_scatter_flat(const plan::Problem& problem);

// For several hosts: reads inside them, messages between them; ranks may be distributed in any way.
plan::Schedule plan_all_gather_hierarchical(const plan::Problem& problem);
plan::Schedule plan_all_reduce_hierarchical(const plan::Problem& problem);
plan::Schedule plan_all_to_all_hierarchical(const plan::Problem& problem);
plan::Schedule plan_barrier_hierarchical(const plan::Problem& problem);
plan::Schedule plan_broadcast_hierarchical(const plan::Problem& problem);
plan::Schedule plan_reduce_scatter_hierarchical(const plan::Problem& problem);

// The part of the catalogue that lists them.
std::span<const Algorithm> rooted_algorithms();

}  // namespace regroup::algorithms
