// SPDX-License-Identifier: Apache-2.0
// The catalogue's rows for the collectives in which all ranks take the same part.
#include <bit>

#include "algorithms/planners.h"

namespace regroup::algorithms {
namespace {

using plan::Problem;
using enum Collective;
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

constexpr Algorithm kRows[] = {
    row(all_reduce, "ring", kPatarasuk, plan_all_reduce_ring, always, kInPlace),
    row(all_reduce, "recursive_doubling", kThakur, plan_all_reduce_recursive_doubling, always, kInPlace),
    row(all_reduce, "rabenseifner", kRabenseifner, plan_all_reduce_rabenseifner, always, kInPlace),
    row(all_reduce, "exchange", kThakur, plan_all_reduce_exchange, always, kExchange),
    row(all_reduce, "direct", kFolklore, plan_all_reduce_direct, always, kReadsInPlace),
    row(all_reduce, "direct_one_phase", kFolklore, plan_all_reduce_direct_one_phase, always, kReads),
    row(all_reduce, "staged", kFolklore, plan_all_reduce_staged, always, kReadsInPlace),

    row(all_gather, "ring", kChan, plan_all_gather_ring, always, kInPlace),
    row(all_gather, "recursive_doubling", kThakur, plan_all_gather_recursive_doubling, power_of_two, kInPlace),
    row(all_gather, "bruck", kBruck, plan_all_gather_bruck, always, kInPlace),
    row(all_gather, "direct", kFolklore, plan_all_gather_direct, always, kReadsInPlace),
    row(all_gather, "staged", kFolklore, plan_all_gather_staged, always, kReadsInPlace),

    row(reduce_scatter, "ring", kPatarasuk, plan_reduce_scatter_ring, always, kInPlace),
    row(reduce_scatter, "recursive_halving", kThakur, plan_reduce_scatter_recursive_halving, always, kInPlace),
    row(reduce_scatter, "exchange", kThakur, plan_reduce_scatter_exchange, always, kExchange),
    row(reduce_scatter, "direct", kFolklore, plan_reduce_scatter_direct, always, kReadsInPlace),
    row(reduce_scatter, "staged", kFolklore, plan_reduce_scatter_staged, always, kReadsInPlace),

    row(all_to_all, "linear_shift", kHofmann, plan_all_to_all_linear_shift, always, {}),
    row(all_to_all, "pairwise", kThakur, plan_all_to_all_pairwise, always, {}),
    row(all_to_all, "bruck", kBruck, plan_all_to_all_bruck, equal_counts, kInPlace),
    row(all_to_all, "direct", kFolklore, plan_all_to_all_direct, always, kReads),
    row(all_to_all, "staged", kFolklore, plan_all_to_all_staged, always, kReadsInPlace),
};

}  // namespace

std::span<const Algorithm> symmetric_algorithms() { return kRows; }

}  // namespace regroup::algorithms
