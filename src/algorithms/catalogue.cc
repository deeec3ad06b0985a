// SPDX-License-Identifier: Apache-2.0
#include "algorithms/catalogue.h"

#include "algorithms/planners.h"

namespace regroup::algorithms {
namespace {

using plan::Problem;
using Reads = Algorithm::Reads;

bool always(const Problem&) { return true; }
bool equal_counts(const Problem& problem) { return problem.equal_counts; }

constexpr std::string_view kBruck = "Bruck, Ho, Kipnis, Upfal & Weathersby 1997";
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

constexpr Flags kReads = {.reads = Reads::everywhere};
constexpr Flags kReadsAndFoldsOnce = {.reads = Reads::everywhere, .single_fold = true};

// By collective, in the order in which `select` falls back to them.
constexpr Algorithm kCatalogue[] = {
    row(Collective::all_reduce, "ring", kPatarasuk, plan_all_reduce_ring, always, {.in_place = true}),
    row(Collective::all_reduce, "recursive_doubling", kThakur, plan_all_reduce_recursive_doubling, always,
        {.in_place = true}),
    row(Collective::all_reduce, "rabenseifner", kRabenseifner, plan_all_reduce_rabenseifner, always,
        {.in_place = true}),
    row(Collective::all_reduce, "exchange", kThakur, plan_all_reduce_exchange, always,
        {.single_fold = true, .in_place = true}),
    row(Collective::all_reduce, "direct", kFolklore, plan_all_reduce_direct, always,
        {.reads = Reads::everywhere, .single_fold = true, .in_place = true}),
    row(Collective::all_reduce, "direct_one_phase", kFolklore, plan_all_reduce_direct_one_phase, always,
        kReadsAndFoldsOnce),

    row(Collective::all_to_all, "linear_shift", kHofmann, plan_all_to_all_linear_shift, always, {}),
    row(Collective::all_to_all, "pairwise", kThakur, plan_all_to_all_pairwise, always, {}),
    row(Collective::all_to_all, "bruck", kBruck, plan_all_to_all_bruck, equal_counts, {.in_place = true}),
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
