// SPDX-License-Identifier: Apache-2.0
#include "algorithms/catalogue.h"

#include <bit>

#include "algorithms/planners.h"

namespace regroup::algorithms {
namespace {

using plan::Problem;
using Reads = Algorithm::Reads;

bool always(const Problem&) { return true; }
bool power_of_two(const Problem& problem) { return std::has_single_bit(problem.size); }
bool equal_counts(const Problem& problem) { return problem.equal_counts; }

constexpr std::string_view kBruck = "Bruck, Ho, Kipnis, Upfal & Weathersby 1997";
constexpr std::string_view kChan = "Chan, Heimlich, Purkayastha & van de Geijn 2007";
constexpr std::string_view kFolklore = "folklore";
constexpr std::string_view kHofmann = "Hofmann & Rünger 2013";
constexpr std::string_view kPatarasuk = "Patarasuk & Yuan 2009";
constexpr std::string_view kRabenseifner = "Rabenseifner 2004";
constexpr std::string_view kThakur = "Thakur, Rabenseifner & Gropp 2005";

// Shorter rows: which flags an algorithm has.
struct Flags {
  Reads reads = Reads::none;
  bool single_fold = false;
  bool in_place = false;
};

constexpr Algorithm row(Collective collective, std::string_view name, std::string_view source,
                        plan::Schedule (*plan)(const Problem&), bool (*fits)(const Problem&), Flags flags) {
  return {collective, name, source, plan, fits, flags.reads, flags.single_fold || !reduces(collective), flags.in_place};
}

constexpr Flags kInPlace = {.in_place = true};
constexpr Flags kExchange = {.single_fold = true, .in_place = true};
constexpr Flags kReads = {.reads = Reads::everywhere, .single_fold = true};
constexpr Flags kReadsInPlace = {.reads = Reads::everywhere, .single_fold = true, .in_place = true};

// By collective, in the order in which `select` falls back to them.
constexpr Algorithm kCatalogue[] = {
    row(Collective::all_reduce, "ring", kPatarasuk, plan_all_reduce_ring, always, kInPlace),
    row(Collective::all_reduce, "recursive_doubling", kThakur, plan_all_reduce_recursive_doubling, always, kInPlace),
    row(Collective::all_reduce, "rabenseifner", kRabenseifner, plan_all_reduce_rabenseifner, always, kInPlace),
    row(Collective::all_reduce, "exchange", kThakur, plan_all_reduce_exchange, always, kExchange),
    row(Collective::all_reduce, "direct", kFolklore, plan_all_reduce_direct, always, kReadsInPlace),
    row(Collective::all_reduce, "direct_one_phase", kFolklore, plan_all_reduce_direct_one_phase, always, kReads),

    row(Collective::all_gather, "ring", kChan, plan_all_gather_ring, always, kInPlace),
    row(Collective::all_gather, "recursive_doubling", kThakur, plan_all_gather_recursive_doubling, power_of_two,
        kInPlace),
    row(Collective::all_gather, "bruck", kBruck, plan_all_gather_bruck, always, kInPlace),
    row(Collective::all_gather, "direct", kFolklore, plan_all_gather_direct, always, kReadsInPlace),

    row(Collective::reduce_scatter, "ring", kPatarasuk, plan_reduce_scatter_ring, always, kInPlace),
    row(Collective::reduce_scatter, "recursive_halving", kThakur, plan_reduce_scatter_recursive_halving, always,
        kInPlace),
    row(Collective::reduce_scatter, "exchange", kThakur, plan_reduce_scatter_exchange, always, kExchange),
    row(Collective::reduce_scatter, "direct", kFolklore, plan_reduce_scatter_direct, always, kReadsInPlace),

    row(Collective::all_to_all, "linear_shift", kHofmann, plan_all_to_all_linear_shift, always, {}),
    row(Collective::all_to_all, "pairwise", kThakur, plan_all_to_all_pairwise, always, {}),
    row(Collective::all_to_all, "bruck", kBruck, plan_all_to_all_bruck, equal_counts, kInPlace),
    row(Collective::all_to_all, "direct", kFolklore, plan_all_to_all_direct, always, kReads),
};

}  // namespace

std::span<const Algorithm> catalogue() { return kCatalogue; }

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
