// SPDX-License-Identifier: Apache-2.0
// What ranks put into a collective and what must come out of it: a value for each (rank, part, index), and the
// reduction of all ranks' values by a plain loop in rank order. Independent of the library's kernels.
#pragma once

#include <cstdint>
#include <string>

#include "regroup/types.h"

namespace regroup::conformance {

enum class Values : uint8_t {
  exact,     // reductions come out exact whatever the order; where nothing is reduced: arbitrary bits
  rounding,  // sums round, so the order shows
  special,   // infinities and NaNs among the values
};

struct ValueRule {
  DataType type = DataType::uint8;
  ReduceOp op;
  bool reduces = false;  // else values are arbitrary bits
  Values values = Values::exact;
  uint64_t seed = 0;
};

// Writes the values of `count` elements from `first` on that `rank` gives in part `part`.
void fill(const ValueRule& rule, Rank rank, uint64_t part, uint64_t first, uint64_t count, void* to);

// Writes the reduction, over ranks 0 … ranks − 1, of the same elements.
void expect_reduction(const ValueRule& rule, Rank ranks, uint64_t part, uint64_t first, uint64_t count, void* to);

inline constexpr uint64_t kNone = ~uint64_t{0};

// The first element in which `got` is not `want`; kNone if there is none. Equal means the same bits, except that every
// NaN equals every other, and that in `loose` comparisons (a floating reduction over `ranks` ranks in no fixed order)
// results may differ by what rounding can do.
uint64_t first_difference(const ValueRule& rule, Rank ranks, bool loose, const void* got, const void* want,
                          uint64_t count);

// Whether a reduction's bits follow from the inputs alone, given that it is (or is not) reproducible.
bool exactly_determined(const ValueRule& rule, bool reproducible);

// Whether the operator means something for the type.
bool meaningful(DataType type, ReduceOp::Kind op);

// One element for people: "1.5 (0x3e00)".
std::string show(DataType type, const void* element);

}  // namespace regroup::conformance
