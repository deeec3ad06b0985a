// SPDX-License-Identifier: Apache-2.0
// Small floating formats by the book: decoding by the definition of the format, encoding by one rounding to nearest
// even. Written apart from the library's kernels, so that one can judge the other.
#pragma once

#include <cstdint>

#include "regroup/types.h"

namespace regroup::conformance {

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool finite_only;  // e4m3fn: no infinities, the all-ones code alone is NaN
};

// Of float16, bfloat16, float8_e4m3fn, float8_e5m2; mantissa_bits 0 for every other type.
constexpr SmallFloat small_float(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10, false};
    case DataType::bfloat16:
      return {8, 7, false};
    case DataType::float8_e4m3fn:
      return {4, 3, true};
    case DataType::float8_e5m2:
      return {5, 2, false};
    default:
      return {0, 0, false};
  }
}

constexpr bool is_small_float(DataType type) { return small_float(type).mantissa_bits != 0; }
constexpr bool is_complex(DataType type) { return type == DataType::complex64 || type == DataType::complex128; }
constexpr bool is_float(DataType type) {
  return is_small_float(type) || type == DataType::float32 || type == DataType::float64;
}
constexpr bool is_integer(DataType type) { return type != DataType::boolean && !is_float(type) && !is_complex(type); }

float decode_small(DataType type, uint32_t bits);
uint32_t encode_small(DataType type, float value);
// Slowly, straight from the format's definition; the two agree.
uint32_t encode_by_definition(DataType type, float value);

}  // namespace regroup::conformance
