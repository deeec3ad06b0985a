// SPDX-License-Identifier: Apache-2.0
// Which family of kernels serves which element type. Knows nothing of SIMD.
#include "reduce/reduce.h"

#include "reduce/kernels.h"

namespace regroup::reduction {

Fold find_fold(DataType type, ReduceOp::Kind op) {
  if (static_cast<unsigned>(op) >= kReduceOps) return nullptr;
  switch (type) {
    case DataType::boolean:
      return find_boolean_fold(op);
    case DataType::int8:
    case DataType::int16:
    case DataType::int32:
    case DataType::int64:
    case DataType::uint8:
    case DataType::uint16:
    case DataType::uint32:
    case DataType::uint64:
      return op == ReduceOp::Kind::average ? find_integer_average_fold(type) : find_integer_fold(type, op);
    case DataType::float16:
    case DataType::bfloat16:
      return find_float16_fold(type, op);
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
      return find_float8_fold(type, op);
    case DataType::float32:
    case DataType::float64:
      return find_float_fold(type, op);
    case DataType::complex64:
    case DataType::complex128:
      return find_complex_fold(type, op);
  }
  return nullptr;
}

bool partial_results_allowed(DataType type, ReduceOp::Kind op) {
  if (!supported(type, op) || op == ReduceOp::Kind::premultiplied_sum) return false;
  switch (type) {
    case DataType::boolean:
    case DataType::float32:
    case DataType::float64:
    case DataType::complex64:
    case DataType::complex128:
      return true;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
      return op == ReduceOp::Kind::minimum || op == ReduceOp::Kind::maximum;
    default:
      return op != ReduceOp::Kind::average;
  }
}

}  // namespace regroup::reduction
