// SPDX-License-Identifier: Apache-2.0
// Kernels of the integers, all but average, and of bool. Sums, products and bits are the same for signed and unsigned
// integers, so those share the unsigned kernels.
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_integer.cc"
#include <hwy/foreach_target.h>

#include "reduce/fold-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {
namespace {

template <class T>
struct IntegerKernel {
  using Element = T;
  using Lane = T;

  explicit IntegerKernel(const FoldOptions&) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const T* from) const {
    return hn::LoadU(d, from);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> v, T* to) const {
    hn::StoreU(v, d, to);
  }
};

template <class T>
struct IntegerSum : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
};

template <class T>
struct IntegerProduct : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    if constexpr (hn::MaxLanes(D()) == 1) {
      return hn::Set(d, static_cast<T>(uint64_t{hn::GetLane(left)} * hn::GetLane(right)));
    } else if constexpr (sizeof(T) == 1) {
      // No processor multiplies bytes: the even and the odd ones separately, as halves of 16-bit products.
      const hn::Repartition<uint16_t, D> d16;
      const auto left16 = hn::BitCast(d16, left);
      const auto right16 = hn::BitCast(d16, right);
      const auto even = hn::And(hn::Mul(left16, right16), hn::Set(d16, 0x00ff));
      const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(left16), hn::ShiftRight<8>(right16)));
      return hn::BitCast(d, hn::Or(even, odd));
    } else {
      return hn::Mul(left, right);
    }
  }
};

template <class T>
struct IntegerMinimum : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Min(left, right);
  }
};

template <class T>
struct IntegerMaximum : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Max(left, right);
  }
};

template <class T>
struct BitAnd : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::And(left, right);
  }
};

template <class T>
struct BitOr : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Or(left, right);
  }
};

template <class T>
struct BitXor : IntegerKernel<T> {
  using IntegerKernel<T>::IntegerKernel;
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Xor(left, right);
  }
};

// bool: every non-zero byte is true. Where the operator allows, bytes are made 0 or 1 only at the end.
template <class D>
HWY_INLINE hn::VFromD<D> zero_or_one(D d, hn::VFromD<D> v) {
  return hn::Min(v, hn::Set(d, uint8_t{1}));
}

template <class Operator>
struct Boolean : Operator {
  using Operator::Operator;
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> v, uint8_t* to) const {
    Operator::store(d, zero_or_one(d, v), to);
  }
};
using BooleanOr = Boolean<BitOr<uint8_t>>;
using BooleanAnd = Boolean<IntegerMinimum<uint8_t>>;  // non-zero exactly if both are

struct BooleanXor : BitXor<uint8_t> {
  using BitXor<uint8_t>::BitXor;
  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const uint8_t* from) const {
    return zero_or_one(d, hn::LoadU(d, from));
  }
};

template <class T>
Fold find_integer_of(ReduceOp::Kind op) {
  using Unsigned = hwy::MakeUnsigned<T>;
  switch (op) {
    case ReduceOp::Kind::sum:
      return &fold<IntegerSum<Unsigned>>;
    case ReduceOp::Kind::product:
      return &fold<IntegerProduct<Unsigned>>;
    case ReduceOp::Kind::minimum:
      return &fold<IntegerMinimum<T>>;
    case ReduceOp::Kind::maximum:
      return &fold<IntegerMaximum<T>>;
    case ReduceOp::Kind::bit_and:
      return &fold<BitAnd<Unsigned>>;
    case ReduceOp::Kind::bit_or:
      return &fold<BitOr<Unsigned>>;
    case ReduceOp::Kind::bit_xor:
      return &fold<BitXor<Unsigned>>;
    default:
      return nullptr;
  }
}

Fold find_integer(DataType type, ReduceOp::Kind op) {
  switch (type) {
    case DataType::int8:
      return find_integer_of<int8_t>(op);
    case DataType::int16:
      return find_integer_of<int16_t>(op);
    case DataType::int32:
      return find_integer_of<int32_t>(op);
    case DataType::int64:
      return find_integer_of<int64_t>(op);
    case DataType::uint8:
      return find_integer_of<uint8_t>(op);
    case DataType::uint16:
      return find_integer_of<uint16_t>(op);
    case DataType::uint32:
      return find_integer_of<uint32_t>(op);
    case DataType::uint64:
      return find_integer_of<uint64_t>(op);
    default:
      return nullptr;
  }
}

Fold find_boolean(ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::sum:
    case ReduceOp::Kind::maximum:
    case ReduceOp::Kind::bit_or:
      return &fold<BooleanOr>;
    case ReduceOp::Kind::product:
    case ReduceOp::Kind::minimum:
    case ReduceOp::Kind::bit_and:
      return &fold<BooleanAnd>;
    case ReduceOp::Kind::bit_xor:
      return &fold<BooleanXor>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduction {

HWY_EXPORT(find_integer);
HWY_EXPORT(find_boolean);

Fold find_integer_fold(DataType type, ReduceOp::Kind op) { return HWY_DYNAMIC_DISPATCH(find_integer)(type, op); }

Fold find_boolean_fold(ReduceOp::Kind op) { return HWY_DYNAMIC_DISPATCH(find_boolean)(op); }

}  // namespace regroup::reduction
#endif
