// SPDX-License-Identifier: Apache-2.0
// Measures the algorithms that can serve, finds the best for each collective, place, number of ranks and size, and
// writes the table that REGROUP_TUNING names (format: algorithms/tuning.h). Compares the cost model on the way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measurement.h"

namespace regroup::tool {

struct TuneOptions {
  Measurement what;                     // but for collective, ranks, transport, sizes and algorithms
  std::vector<Collective> collectives;  // empty: all
  std::vector<uint32_t> ranks;          // empty: 2, 4 and the number of cores
  std::vector<std::string> transports = {"shm", "tcp"};
  uint64_t most_bytes = 64 << 20;
  std::string memory = "ordinary";  // of `what`, in words
  std::string output;
  bool json = false;
};

// The exit status.
int tune(const TuneOptions& tuning);

}  // namespace regroup::tool
