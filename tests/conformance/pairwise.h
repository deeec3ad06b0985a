// SPDX-License-Identifier: Apache-2.0
// Which cases to run: every collective × type × operator on every wire, with the other dimensions chosen so that every
// pair of values of any two dimensions occurs in some case (all-pairs testing), as far as such a case exists.
// Deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "conformance/case.h"

namespace regroup::conformance {

// For each dimension which of its values may be used, and how ranks are launched for a wire and a number of ranks
// (fewer groups need to be made than there are combinations).
struct Space {
  std::vector<std::vector<uint8_t>> allowed;  // by dimension, indices into value_names
  bool one_launch_a_group = true;
};

// All values of all dimensions.
Space everything();

// Distinct, normalized rows. Another seed gives other rows with the same promise.
std::vector<Row> covering_rows(const Space& space, uint64_t seed);

}  // namespace regroup::conformance
