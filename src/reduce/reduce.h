// SPDX-License-Identifier: Apache-2.0
// Typed reduction kernels. The only home of SIMD. Pure: no state, no threads, no allocation.
#pragma once

#include <cstdint>
#include <span>

#include "regroup/types.h"

namespace regroup::reduction {

// What a fold does besides the operator itself.
struct FoldOptions {
  // premultiplied_sum: multiplies every source, as a float64 (float64, complex128) or a float32 (all others); each
  // product is rounded before it is added.
  double factor = 1.0;
  // average: divide the result by this once, at least the number of sources. 0: not yet, partial sums stay undivided.
  uint32_t divisor = 0;
};

// to[i] ← sources[0][i] ∘ sources[1][i] ∘ … in this order, count elements of at least one source. `to` may be exactly
// one of the sources; other overlap is a bug. Any alignment that the element type has. The same bits on every machine
// (given the default floating-point environment), wherever in the array an element stands.
//  - float16, bfloat16, float8: accumulated in float32, rounded once to nearest even at the end. float8_e4m3fn has no
//    infinities: what would round beyond 448, infinities included, becomes NaN with its sign, as in PyTorch.
//  - average on integers: accumulated in a wider type, divided truncating toward zero.
//  - integers wrap around.
//  - bool: any non-zero byte is true; sum, maximum and bit_or are "or", product, minimum and bit_and are "and", bit_xor
//    is "an odd number of them"; the result is 0 or 1, with a single source too.
//  - every NaN that an operator yields, with a single source too, is the canonical quiet NaN of the type: positive, of
//    the mantissa only the first bit (e4m3fn: 0x7f). Which NaN an addition would keep differs from machine to machine.
//  - minimum, maximum on floating types: a NaN in any source makes the result NaN; −0 is less than +0.
//  - product on complex types: (ac − bd) + (ad + bc)i as it stands, without C's rescue of infinities.
using Fold = void (*)(void* to, const void* const* sources, uint32_t source_count, uint64_t count,
                      const FoldOptions& options);

// The kernel for the running machine, chosen once: calling it costs no more than a call. Constant time, any thread.
// nullptr where the combination makes no sense:
//   bit_* on floating and complex types; minimum, maximum on complex types; average and premultiplied_sum on bool;
//   premultiplied_sum on integers.
Fold find_fold(DataType type, ReduceOp::Kind op);

inline bool supported(DataType type, ReduceOp::Kind op) { return find_fold(type, op) != nullptr; }

// Whether folding partial results again gives the same as one fold over all contributions but for float rounding; where
// it is false, every output element must come from one fold over the original inputs: float16, bfloat16 and float8
// under sum, average, product and premultiplied_sum; average on integers; premultiplied_sum always; unsupported pairs.
bool partial_results_allowed(DataType type, ReduceOp::Kind op);

}  // namespace regroup::reduction
