// SPDX-License-Identifier: Apache-2.0
// Kernels of float16 and bfloat16: accumulated in float, rounded once.
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_float16.cc"
#include <hwy/foreach_target.h>

#include "reduce/codec-inl.h"
#include "reduce/float_operators-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {
namespace {

Fold find_float16(DataType type, ReduceOp::Kind op) {
  return type == DataType::float16 ? find_fold_of<Float16Codec>(op) : find_fold_of<Bfloat16Codec>(op);
}

}  // namespace
}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduction {

HWY_EXPORT(find_float16);

Fold find_float16_fold(DataType type, ReduceOp::Kind op) { return HWY_DYNAMIC_DISPATCH(find_float16)(type, op); }

}  // namespace regroup::reduction
#endif
