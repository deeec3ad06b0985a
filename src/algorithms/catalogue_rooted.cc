// SPDX-License-Identifier: Apache-2.0
// The catalogue's rows for the planners of planners_rooted.h.
#include "algorithms/planners_rooted.h"

namespace regroup::algorithms {

namespace {

using enum Collective;
using Reads = Algorithm::Reads;

bool always(const plan::Problem&) { return true; }
bool counts_known(const plan::Problem& problem) { return problem.counts_known; }
// Several hosts, and ranks that share one.
bool hierarchical(const plan::Problem& problem) {
  const plan::Topology& topology = problem.topology;
  return topology.size() == problem.size && topology.hosts() > 1 && topology.hosts() < problem.size;
}

constexpr std::string_view kFolklore = "folklore";
constexpr std::string_view kJohnssonHo = "Johnsson & Ho 1989";
constexpr std::string_view kPipeline = "Pjesivac-Grbovic et al. 2007";
constexpr std::string_view kVanDeGeijn = "Barnett et al. 1994";
constexpr std::string_view kKaronis = "Karonis et al. 2000";
constexpr std::string_view kMultiLane = "Träff & Hunold 2020";
constexpr std::string_view kLinearShift = "Hofmann & Rünger 2013";
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
    {broadcast, "staged", kFolklore, plan_broadcast_staged, always, Reads::everywhere, true, true},

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

    {barrier, "hierarchical", kDissemination, plan_barrier_hierarchical, hierarchical, Reads::inside_hosts, true, true},
    {broadcast, "hierarchical", kKaronis, plan_broadcast_hierarchical, hierarchical, Reads::inside_hosts, true, true},
    {all_reduce, "hierarchical", kMultiLane, plan_all_reduce_hierarchical, hierarchical, Reads::inside_hosts, false,
     true},
    {all_gather, "hierarchical", kMultiLane, plan_all_gather_hierarchical, hierarchical, Reads::inside_hosts, true,
     true},
    {reduce_scatter, "hierarchical", kMultiLane, plan_reduce_scatter_hierarchical, hierarchical, Reads::inside_hosts,
     false, true},
    {all_to_all, "hierarchical", kLinearShift, plan_all_to_all_hierarchical, hierarchical, Reads::inside_hosts, true,
     false},
};

}  // namespace

std::span<const Algorithm> rooted_algorithms() { return kRows; }

}  // namespace regroup::algorithms
