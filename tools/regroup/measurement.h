// SPDX-License-Identifier: Apache-2.0
// Measures a collective over forked, pinned ranks. Every iteration: inputs are written anew, all ranks meet, each times
// its call, and the slowest rank's time counts. The floor is measured in the same rounds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "board.h"
#include "choice.h"

namespace regroup::tool {

struct Measurement {
  Call call;                    // but for `bytes`
  std::vector<uint64_t> sizes;  // in bytes of a rank's larger side
  ReduceOp op;
  bool mapped = false;  // memory from regroup::allocate
  bool in_place = false;
  bool check = false;  // every output element, after every call
  bool floor = true;
  std::string algorithm;    // empty: the library's choice
  uint32_t iterations = 0;  // 0: as many as half a second or so allows, at least 5
  uint32_t warmup = 0;      // 0: some
  double seconds = 0.7;     // to spend on a size, where `iterations` leaves it open
};

struct Measured {
  uint64_t bytes = 0;
  std::string algorithm;
  const SizeResult* times = nullptr;
  std::optional<bool> equal;
};

// Calls `result` for each size as it is done. Returns a problem for people; empty if there is none.
std::string measure(const Measurement& what, const std::function<void(const Measured&)>& result,
                    const std::function<void(uint64_t, uint64_t)>& progress);

// nccl-tests' factor from algbw to busbw: what an ideal algorithm moves over each rank's link, for each byte of size.
double bus_factor(Collective collective, Rank ranks);

}  // namespace regroup::tool
