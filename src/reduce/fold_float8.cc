// SPDX-License-Identifier: Apache-2.0
// Kernels of float8_e4m3fn and float8_e5m2: accumulated in float, rounded once.
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_float8.cc"
#include <hwy/foreach_target.h>

#include "reduce/codec-inl.h"
#include "reduce/float_operators-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {
namespace {

Fold find_float8(DataType type, ReduceOp::Kind op) {
  return type == DataType::float8_e4m3fn ? find_fold_of<Float8E4m3fnCodec>(op) : find_fold_of<Float8E5m2Codec>(op);
}

}  // namespace
}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduction {

HWY_EXPORT(find_float8);

Fold find_float8_fold(DataType type, ReduceOp::Kind op) { return HWY_DYNAMIC_DISPATCH(find_float8)(type, op); }

}  // namespace regroup::reduction
#endif
