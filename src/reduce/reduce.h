// SPDX-License-Identifier: Apache-2.0
// Typed reduction kernels. The only home of SIMD. Pure: no state, no threads, no allocation.
#pragma once

#include <cstdint>
#include <span>

#include "regroup/types.h"

namespace regroup::reduction {

// What a fold does besides the operator itself.
struct FoldOptions {
  double factor = 1.0;   // premultiplied_sum: multiplies every source
  uint32_t divisor = 0;  // average: divide the result by this once (0: not yet, partial sums stay undivided)
};

// to[i] ← sources[0][i] ∘ sources[1][i] ∘ … in this order, count elements. `to` may be exactly one of the sources;
// other overlap is a bug. Any alignment that the element type has.
//   float16, bfloat16, float8: accumulated in float32, rounded once to nearest even at the end.
//   average on integers: accumulated in a wider type, divided truncating toward zero.
//   integers wrap around. bool: sum and maximum are "or", product and minimum are "and"; result is 0 or 1.
//   minimum, maximum on floating types: a NaN in any source makes the result NaN (the canonical quiet NaN of the type).
using Fold = void (*)(void* to, const void* const* sources, uint32_t source_count, uint64_t count,
                      const FoldOptions& options);

// The kernel for the running machine; nullptr where the combination makes no sense:
//   bit_* on floating and complex types; minimum, maximum on complex types; average and premultiplied_sum on bool;
//   premultiplied_sum on integers.
Fold find_fold(DataType type, ReduceOp::Kind op);

inline bool supported(DataType type, ReduceOp::Kind op) { return find_fold(type, op) != nullptr; }

// Whether folding partial results again gives the same as one fold over all contributions but for float rounding; where
// it is false, every output element must come from one fold over the original inputs: float16, bfloat16 and float8
// under sum, average, product and premultiplied_sum; average on integers; premultiplied_sum always.
bool partial_results_allowed(DataType type, ReduceOp::Kind op);

}  // namespace regroup::reduction
