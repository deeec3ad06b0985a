// SPDX-License-Identifier: Apache-2.0
// One rank of a measurement, in its own process.
#pragma once

#include <string>

#include "board.h"
#include "floor.h"
#include "measurement.h"

namespace regroup::tool {

// Returns when all sizes are measured or somebody failed; what failed stands on the board.
void run_bench_rank(const Measurement& what, Rank rank, const std::string& store_url, Board& board, SocketRing* ring);

}  // namespace regroup::tool
