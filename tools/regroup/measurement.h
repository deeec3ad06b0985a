// SPDX-License-Identifier: Apache-2.0
// A contest: regroup, alone or against peers, each by processes of its own, one rank pinned to a core in turn. For each
// size the contenders take turns, round by round; while one is measured, the others sleep. Before each call its inputs
// are written anew and its ranks meet; each times its call, and the slowest rank's time counts. The floor takes turns,
// too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "choice.h"
#include "contest/board.h"

namespace regroup::tool {

// regroup's own name among the contenders.
inline constexpr std::string_view kUs = "regroup";

struct Measurement {
  std::string backend = "native";  // regroup's, as JoinOptions::backend takes it
  Call call;                       // but for `bytes`
  std::vector<uint64_t> sizes;     // in bytes of a rank's larger side
  ReduceOp op;
  bool in_place = false;
  bool check = false;  // every output element, after every call
  bool floor = true;
  bool overlap = false;                        // the ways that take turns are those of overlap.h, and no algorithms
  std::vector<std::string> algorithms = {""};  // they take turns, too; "": the library's choice
  std::vector<std::string> against;            // peers, by name
  // Whether calls are carried out by regroup's own schedules, here or in another process.
  bool plans() const { return backend == "native" || backend == "auto" || backend.ends_with(":native"); }
  uint32_t iterations = 0;  // 0: as many as `seconds` allows, at least a few
  uint32_t warmup = 0;      // 0: some
  double seconds = 0.7;     // to spend on a contender and a size, where `iterations` leaves it open
};

// One contender at one size.
struct Measured {
  uint64_t bytes = 0;
  std::string contender;  // "regroup", or a peer's name
  std::string reason;     // why it could not be measured; then nothing else is set. Empty: it was
  std::string version;
  std::string algorithm;  // of regroup's own schedules
  uint32_t iterations = 0;
  double p50_us = 0, min_us = 0, p99_us = 0;
  std::vector<double> round_p50s_us;
  double floor_us = 0;  // regroup's; 0: none
  double ratio =
      0;  // a peer's (or a further algorithm's): its p50 ÷ regroup's first, the median over the rounds; 0: none
  std::optional<bool> equal;
  double whole_us = 0;  // regroup's: rank 0's time for all measured calls, and where it went
  std::vector<contest::Phase> phases;
};

// Calls `result` for each size and contender as it is done, regroup first, with each of its algorithms. Returns a
// problem of regroup's or of the machine's for people; empty if there is none. A peer's problem is its `reason`.
std::string measure(const Measurement& what, const std::function<void(const Measured&)>& result,
                    const std::function<void(uint64_t, uint64_t)>& progress);

// nccl-tests' factor from algbw to busbw: what an ideal algorithm moves over each rank's link, for each byte of size.
double bus_factor(Collective collective, Rank ranks);

}  // namespace regroup::tool
