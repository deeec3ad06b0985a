// SPDX-License-Identifier: Apache-2.0
// Cutting a range of elements into blocks, for planners that pipeline.
#pragma once

#include <algorithm>
#include <cstdint>

namespace regroup::algorithms {

// Calls `visit(offset, count)` for each block of at most `block` elements, in order; not at all where `total` is 0.
template <typename Visit>
void for_each_block(uint64_t total, uint64_t block, Visit visit) {
  for (uint64_t offset = 0; offset < total; offset += block) visit(offset, std::min(block, total - offset));
}

}  // namespace regroup::algorithms
