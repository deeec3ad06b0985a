// SPDX-License-Identifier: Apache-2.0
// How much of a communication is hidden behind a computation: a started operation next to work of the caller's.
#pragma once

#include <cstdint>
#include <vector>

#include "measurement.h"

namespace regroup::tool {

// The ways that take turns, by their place among a contender's variants.
enum class Way : uint32_t { communication, computation, together };
inline constexpr uint32_t kWays = 3;

// Work for the caller's core alone: no memory, no system.
class Computation {
 public:
  // Makes `run` last about so long on this core, as it is now.
  void last(double us);
  void run() const { (void)spend(rounds_); }

 private:
  static uint64_t spend(uint64_t rounds);
  uint64_t rounds_ = 0;
};

// Both one after the other less both at once, as a share of the shorter of the two; of each round, then the median. 1:
// the shorter one costs nothing. 0: as long as one after the other, or longer.
double overlap_share(const std::vector<double>& communication_us, const std::vector<double>& computation_us,
                     const std::vector<double>& together_us);

}  // namespace regroup::tool
