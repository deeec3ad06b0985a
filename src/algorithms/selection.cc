// SPDX-License-Identifier: Apache-2.0
// The choice of an algorithm: the first row of a table that applies, of a table of measurements before the built-in
// one. Every condition is an agreed fact.
// The thresholds are starting points from the literature and first measurements, not from the machine at hand.
#include <cstdint>

#include "algorithms/catalogue.h"
#include "algorithms/tuning.h"
#include "base/assert.h"
#include "base/hash.h"

namespace regroup::algorithms {
namespace {

using enum Collective;

constexpr uint64_t KiB = 1024;
constexpr uint64_t MiB = 1024 * KiB;

struct Row {
  Collective collective;
  Where where;
  std::string_view algorithm;
  std::string_view reason;
  uint64_t up_to = kAnySize;  // bytes of the larger side
  Ranks ranks = {};
};

constexpr std::string_view kReads = "all ranks read each other's memory";
constexpr std::string_view kFoldAll = "small: fold all inputs where they lie";
constexpr std::string_view kStaged = "not all memory is mapped: two copies through the cache beat reads by the kernel";
constexpr std::string_view kHosts = "reads inside hosts, messages between them";
constexpr std::string_view kLatency = "small: fewest steps";
constexpr std::string_view kBandwidth = "large: fewest bytes";
constexpr std::string_view kFewRanks = "large, few ranks: few and large messages";
constexpr std::string_view kOneFold = "one fold in rank order, by messages";

// Two ranks that each have a core gain nothing by staging: what one has just written is slow for the other to fetch.
// From the most to the least preferred. A row whose algorithm can't serve (see `usable`) is passed over, so that rows
// of algorithms that fold partial results do not apply where one fold is needed.
constexpr Row kTable[] = {
    {barrier, Where::shared, "direct", kReads},
    {barrier, Where::by_host, "hierarchical", kHosts},
    {barrier, Where::anywhere, "dissemination", kLatency},

    {broadcast, Where::shared, "direct", kReads},
    {broadcast, Where::by_host, "hierarchical", kHosts},
    {broadcast, Where::anywhere, "binomial", kLatency, 64 * KiB},
    {broadcast, Where::anywhere, "chain", "large, few ranks: everyone passes it on", kAnySize, {.most = 3}},
    {broadcast, Where::anywhere, "scatter_all_gather", kBandwidth},

    {reduce, Where::shared, "direct", kFoldAll, 64 * KiB},
    {reduce, Where::shared, "direct_shares", kReads},
    {reduce, Where::anywhere, "binomial", kLatency, 1 * MiB},
    {reduce, Where::anywhere, "chain", kBandwidth},
    {reduce, Where::anywhere, "flat", kOneFold},

    {all_reduce, Where::staged, "staged", kStaged, kAnySize, {.least = 3}},
    // One phase reads P · n bytes a rank, which many ranks feel earlier.
    {all_reduce, Where::shared, "direct_one_phase", kFoldAll, 64 * KiB, {.most = 8}},
    {all_reduce, Where::shared, "direct_one_phase", kFoldAll, 4 * KiB},
    {all_reduce, Where::shared, "direct", kReads},
    {all_reduce, Where::by_host, "hierarchical", kHosts},
    {all_reduce, Where::anywhere, "recursive_doubling", kLatency, 16 * KiB},
    {all_reduce, Where::anywhere, "rabenseifner", "medium: few steps and fewest bytes", 1 * MiB},
    {all_reduce, Where::anywhere, "rabenseifner", kFewRanks, kAnySize, {.most = 4}},
    {all_reduce, Where::anywhere, "ring", kBandwidth},
    {all_reduce, Where::anywhere, "exchange", kOneFold},

    {gather, Where::shared, "direct", kReads},
    {gather, Where::anywhere, "binomial", kLatency, 16 * KiB},
    {gather, Where::anywhere, "flat", kBandwidth},

    {all_gather, Where::staged, "staged", kStaged, kAnySize, {.least = 3}},
    {all_gather, Where::shared, "direct", kReads},
    {all_gather, Where::by_host, "hierarchical", kHosts},
    {all_gather, Where::anywhere, "recursive_doubling", kLatency, 64 * KiB},
    {all_gather, Where::anywhere, "bruck", kLatency, 64 * KiB},
    {all_gather, Where::anywhere, "recursive_doubling", kFewRanks, kAnySize, {.most = 2}},
    {all_gather, Where::anywhere, "ring", kBandwidth},

    {scatter, Where::shared, "direct", kReads},
    {scatter, Where::anywhere, "binomial", kLatency, 16 * KiB},
    {scatter, Where::anywhere, "flat", kBandwidth},

    {reduce_scatter, Where::shared, "direct", kReads},
    {reduce_scatter, Where::by_host, "hierarchical", kHosts},
    {reduce_scatter, Where::anywhere, "recursive_halving", kLatency, 64 * KiB},
    {reduce_scatter, Where::anywhere, "recursive_halving", kFewRanks, kAnySize, {.most = 4}},
    {reduce_scatter, Where::anywhere, "ring", kBandwidth},
    {reduce_scatter, Where::anywhere, "exchange", kOneFold},

    {all_to_all, Where::staged, "staged", kStaged, kAnySize, {.least = 3}},
    {all_to_all, Where::shared, "direct", kReads},
    {all_to_all, Where::by_host, "hierarchical", kHosts},
    // Below some eight ranks the messages that are saved do not make up for the steps.
    {all_to_all, Where::anywhere, "bruck", kLatency, 8 * KiB, {.least = 8}},
    {all_to_all, Where::anywhere, "linear_shift", "each byte once, all at once"},
};

// Whether all ranks know how many bytes the operation has: where the parts differ by pair, or only the root knows them,
// no row that asks for the size can be taken.
bool size_is_agreed(const plan::Problem& problem) {
  switch (problem.collective) {
    case Collective::all_to_all:
      return problem.equal_counts;
    case Collective::gather:
    case Collective::scatter:
      return problem.counts_known;
    default:
      return true;
  }
}

bool applies(Where where, Ranks ranks, uint64_t up_to, const plan::Problem& problem, const Facts& facts) {
  const bool fits = up_to == kAnySize || (size_is_agreed(problem) && facts.bytes <= up_to);
  return fits && problem.size >= ranks.least && problem.size <= ranks.most && holds(where, problem, facts);
}

}  // namespace

bool holds(Where where, const plan::Problem& problem, const Facts& facts) {
  switch (where) {
    case Where::anywhere:
      return true;
    case Where::shared:
      return facts.one_sided_everywhere;
    case Where::staged:
      return facts.one_sided_everywhere && facts.staging;
    case Where::by_host:
      return facts.one_sided_inside_hosts && problem.topology.hosts() > 1;
    case Where::messages:
      return !facts.one_sided_inside_hosts && !facts.one_sided_everywhere;
  }
  return false;
}

Selection select(const plan::Problem& problem, const Facts& facts, const Tuning* tuning) {
  if (tuning != nullptr) {
    for (const Tuning::Row& row : tuning->rows()) {
      if (row.algorithm->collective != problem.collective) continue;
      if (row.where == Where::shared && facts.staging) continue;  // measured where all memory was mapped
      if (!applies(row.where, row.ranks, row.up_to, problem, facts)) continue;
      if (usable(*row.algorithm, problem, facts)) return {row.algorithm, "measured", row.place};
    }
  }
  for (const Row& row : kTable) {
    if (row.collective != problem.collective) continue;
    if (!applies(row.where, row.ranks, row.up_to, problem, facts)) continue;
    const Algorithm* algorithm = find(row.collective, row.algorithm);
    if (algorithm != nullptr && usable(*algorithm, problem, facts)) return {algorithm, row.reason, kBuiltIn};
  }
  for (const Algorithm& algorithm : catalogue()) {
    if (usable(algorithm, problem, facts)) return {&algorithm, "no other fits", kBuiltIn};
  }
  REGROUP_ASSERT(!"a collective that has schedules has one by messages that fits every problem and folds once");
  return {};
}

uint64_t selection_hash(const Tuning* tuning) {
  uint64_t hash = tuning != nullptr ? tuning->hash() : 0;
  for (const Row& row : kTable) {
    hash = base::mix(hash, static_cast<uint64_t>(row.collective) << 8 | static_cast<uint64_t>(row.where));
    hash = base::mix(base::hash_bytes(row.algorithm, hash), row.up_to);
    hash = base::mix(hash, uint64_t{row.ranks.least} << 32 | row.ranks.most);
  }
  return hash;
}

}  // namespace regroup::algorithms
