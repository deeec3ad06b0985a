// SPDX-License-Identifier: Apache-2.0
// What ranks put in and what should come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simulation/operation.h"

namespace regroup::simulation {

// Writes part `part` of `rank`'s input: `count` elements.
void contribute(const Member& member, Rank rank, uint32_t part, uint64_t count, std::byte* to);

// Part `part` of `rank`'s output: one fold over all inputs in rank order, where the collective reduces.
std::vector<std::byte> expected_output(const Member& member, Rank rank, uint32_t part, uint64_t count);

// Of float32 sums, but for rounding.
bool nearly_equal(const std::byte* a, const std::byte* b);

std::string element_text(DataType type, const std::byte* element);

}  // namespace regroup::simulation
