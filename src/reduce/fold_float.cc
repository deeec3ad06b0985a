// SPDX-License-Identifier: Apache-2.0
// Kernels of float32 and float64.
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_float.cc"
#include <hwy/foreach_target.h>

#include "reduce/float_operators-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {
namespace {

template <class T>
struct PlainFloat {
  using Element = T;
  using Lane = T;

  template <class D>
  static HWY_INLINE hn::VFromD<D> decode(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE void encode(D d, hn::VFromD<D> v, T* to) {
    hn::StoreU(v, d, to);
  }
};

Fold find_float(DataType type, ReduceOp::Kind op) {
  return type == DataType::float32 ? find_fold_of<PlainFloat<float>>(op) : find_fold_of<PlainFloat<double>>(op);
}

}  // namespace
}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduction {

HWY_EXPORT(find_float);

Fold find_float_fold(DataType type, ReduceOp::Kind op) { return HWY_DYNAMIC_DISPATCH(find_float)(type, op); }

}  // namespace regroup::reduction
#endif
