// SPDX-License-Identifier: Apache-2.0
// All planners, listed; and the table by which one is selected. Pure: both work on agreed facts alone, so that every
// rank comes to the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::algorithms {

class Tuning;

struct Algorithm {
  Collective collective;
  std::string_view name;    // unique within the collective: "ring", "direct", "hierarchical"
  std::string_view source;  // the paper, or "folklore"
  plan::Schedule (*plan)(const plan::Problem& problem);
  // Whether it fits these sizes, counts and hosts; looks at facts that all ranks know alike (`rank` is not one, and of
  // gather and scatter with unknown counts and of all_to_all no count is).
  bool (*fits)(const plan::Problem& problem);
  // Needs reads of peers' memory: between all ranks, only between ranks of one host, or not at all.
  enum class Reads : uint8_t { none, inside_hosts, everywhere } reads;
  // Reductions: each output element comes from one fold over the ranks' inputs, in rank order (see
  // reduction::partial_results_allowed, and CallOptions::reproducible). Others: true.
  bool single_fold;
  // Stays right where input and output share memory as plan::Space says. Otherwise the caller of the schedule has to
  // move the input out of the way first.
  bool in_place;
};

// Every algorithm, by collective.
std::span<const Algorithm> catalogue();

// nullptr if there is none of that name.
const Algorithm* find(Collective collective, std::string_view name);

// What selection goes by, besides the problem: agreed facts of the group and of the call.
struct Facts {
  bool one_sided_everywhere = false;    // all ranks read each other's memory
  bool one_sided_inside_hosts = false;  // ranks of one host do
  bool staging = false;             // some rank's memory is not mapped by its peers: copies may be quicker than reads
  bool single_fold_needed = false;  // by type and operator, or for reproducible results
  uint64_t bytes = 0;               // of the larger side, as the command line counts them
};

// Whether `algorithm` can serve at all.
bool usable(const Algorithm& algorithm, const plan::Problem& problem, const Facts& facts);

// The choice, and the reason for it in a few words. There always is one.
struct Selection {
  const Algorithm* algorithm;
  std::string_view reason;
  std::string_view row;  // which table's row it follows from: kBuiltIn, or the tuning table's "FILE:LINE"
};
inline constexpr std::string_view kBuiltIn = "built-in";
// `tuning` (see algorithms/tuning.h) may be nullptr; the result points into it.
Selection select(const plan::Problem& problem, const Facts& facts, const Tuning* tuning = nullptr);

// Of the tables that `select` goes by: ranks that differ in them would choose differently.
uint64_t selection_hash(const Tuning* tuning = nullptr);

}  // namespace regroup::algorithms
