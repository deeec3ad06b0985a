// SPDX-License-Identifier: Apache-2.0
// From one number a whole run: group, operations, network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/run.h"

namespace regroup::simulation {

struct Scenario {
  transport::sim::SimOptions options;
  std::vector<Operation> operations;
  std::string text;
};

// Several operations in a row, alone, fused into batches, or eager, by any algorithms.
Scenario make_scenario(uint64_t seed);
// One operation.
Scenario make_scenario(const verify::BatchMember& call, uint64_t seed);

}  // namespace regroup::simulation
