// SPDX-License-Identifier: Apache-2.0
// The catalogue's rows for the planners of planners_rooted.h.
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

namespace {

using enum Collective;
using Reads = Algorithm::Reads;

bool always(const plan::Problem&) { return true; }
bool counts_known(const plan::Problem& problem) { return problem.counts_known; }

constexpr std::string_view kFolklore = "folklore";
constexpr std::string_view kJohnssonHo = "Johnsson & Ho 1989";
constexpr std::string_view kPipeline = "Pjesivac-Grbovic et al. 2007";
constexpr std::string_view kVanDeGeijn = "Barnett et al. 1994";
constexpr std::string_view kThakur = "Thakur, Rabenseifner & Gropp 2005";
constexpr std::string_view kDissemination = "Hensgen, Finkel & Manber 1988";

// collective, name, source, plan, fits, reads, single_fold, in_place
constexpr Algorithm kRows[] = {
    {barrier, "dissemination", kDissemination, plan_barrier_dissemination, always, Reads::none, true, true},
    {barrier, "direct", kFolklore, plan_barrier_direct, always, Reads::everywhere, true, true},

    {broadcast, "flat", kFolklore, plan_broadcast_flat, always, Reads::none, true, true},
    {broadcast, "binomial", kJohnssonHo, plan_broadcast_binomial, always, Reads::none, true, true},
    {broadcast, "chain", kPipeline, plan_broadcast_chain, always, Reads::none, true, true},
    {broadcast, "scatter_all_gather", kVanDeGeijn, plan_broadcast_scatter_all_gather, always, Reads::none, true, true},
    {broadcast, "direct", kFolklore, plan_broadcast_direct, always, Reads::everywhere, true, true},

    {reduce, "flat", kFolklore, plan_reduce_flat, always, Reads::none, true, true},
    {reduce, "binomial", kThakur, plan_reduce_binomial, always, Reads::none, false, true},
    {reduce, "chain", kPipeline, plan_reduce_chain, always, Reads::none, false, true},
    {reduce, "direct", kFolklore, plan_reduce_direct, always, Reads::everywhere, true, true},
    {reduce, "direct_shares", kFolklore, plan_reduce_direct_shares, always, Reads::everywhere, true, true},

    {gather, "flat", kFolklore, plan_gather_flat, always, Reads::none, true, true},
    {gather, "binomial", kThakur, plan_gather_binomial, counts_known, Reads::none, true, true},
    {gather, "direct", kFolklore, plan_gather_direct, always, Reads::everywhere, true, true},

    {scatter, "flat", kFolklore, plan_scatter_flat, always, Reads::none, true, true},
    {scatter, "binomial", kThakur, plan_scatter_binomial, counts_known, Reads::none, true, true},
    {scatter, "direct", kFolklore, plan_scatter_direct, always, Reads::everywhere, true, true},
};

}  // namespace

std::span<const Algorithm> rooted_algorithms() { return kRows; }

}  // namespace regroup::algorithms
