// SPDX-License-Identifier: Apache-2.0
// The families of kernels that find_fold chooses from. Each returns nullptr for an operator that it lacks, and expects
// only the types that its name says.
#pragma once

#include "reduce/reduce.h"

namespace regroup::reduction {

Fold find_boolean_fold(ReduceOp::Kind op);
Fold find_integer_fold(DataType type, ReduceOp::Kind op);  // but average
Fold find_integer_average_fold(DataType type);
Fold find_float_fold(DataType type, ReduceOp::Kind op);    // float32, float64
Fold find_float16_fold(DataType type, ReduceOp::Kind op);  // float16, bfloat16
Fold find_float8_fold(DataType type, ReduceOp::Kind op);   // float8_e4m3fn, float8_e5m2
Fold find_complex_fold(DataType type, ReduceOp::Kind op);

}  // namespace regroup::reduction
