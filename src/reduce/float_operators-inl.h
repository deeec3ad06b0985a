// SPDX-License-Identifier: Apache-2.0
// The operators on floating-point lanes (float or double), whatever type they are in memory; that is a codec's matter:
//
//   Codec::Element, Codec::Lane
//   Codec::decode(d, from)       elements as lanes, exactly
//   Codec::encode(d, v, to)      lanes rounded to elements; a NaN is the canonical one already
//
// Every NaN leaves as the canonical quiet NaN: which of two NaNs an addition returns, and the sign of ∞ − ∞, differ
// from processor to processor and from one compilation to the next, and all ranks must see the same bits.
#if defined(REGROUP_REDUCE_FLOAT_OPERATORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REGROUP_REDUCE_FLOAT_OPERATORS_INL_H_
#undef REGROUP_REDUCE_FLOAT_OPERATORS_INL_H_
#else
#define REGROUP_REDUCE_FLOAT_OPERATORS_INL_H_
#endif

#include <bit>
#include <limits>

#include "reduce/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::VFromD<D> with_canonical_nan(D d, hn::VFromD<D> v) {
  return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()), v);
}

template <class Codec>
struct FloatSum {
  using Element = typename Codec::Element;
  using Lane = typename Codec::Lane;

  explicit FloatSum(const FoldOptions&) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const Element* from) const {
    return Codec::decode(d, from);
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> v, Element* to) const {
    Codec::encode(d, with_canonical_nan(d, v), to);
  }
};

// A true division: multiplying by the reciprocal would round twice, but where the reciprocal is exact.
template <class Codec, bool kExactReciprocal>
struct FloatAverage : FloatSum<Codec> {
  using typename FloatSum<Codec>::Element;
  using typename FloatSum<Codec>::Lane;
  const Lane divisor;
  const Lane reciprocal;

  explicit FloatAverage(const FoldOptions& options)
      : FloatSum<Codec>(options), divisor(static_cast<Lane>(options.divisor)), reciprocal(1 / divisor) {}

  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> v, Element* to) const {
    if constexpr (kExactReciprocal) {
      FloatSum<Codec>::store(d, hn::Mul(v, hn::Set(d, reciprocal)), to);
    } else {
      FloatSum<Codec>::store(d, hn::Div(v, hn::Set(d, divisor)), to);
    }
  }
};

template <class Codec>
struct FloatPremultipliedSum : FloatSum<Codec> {
  using typename FloatSum<Codec>::Element;
  using typename FloatSum<Codec>::Lane;
  const Lane factor;

  explicit FloatPremultipliedSum(const FoldOptions& options)
      : FloatSum<Codec>(options), factor(static_cast<Lane>(options.factor)) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const Element* from) const {
    return hn::Mul(Codec::decode(d, from), hn::Set(d, factor));
  }
};

template <class Codec>
struct FloatProduct : FloatSum<Codec> {
  using FloatSum<Codec>::FloatSum;

  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Mul(left, right);
  }
};

// Where neither is less, "or" of the bits is right in all three cases: equal numbers are left alone, of two zeros a
// negative one wins, and a NaN stays a NaN.
template <class Codec>
struct FloatMinimum : FloatSum<Codec> {
  using FloatSum<Codec>::FloatSum;

  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    const auto not_less = hn::IfThenElse(hn::Lt(right, left), right, hn::Or(left, right));
    return hn::IfThenElse(hn::Lt(left, right), left, not_less);
  }
};

// max(a, b) = −min(−a, −b)
template <class Codec>
struct FloatMaximum : FloatMinimum<Codec> {
  using FloatMinimum<Codec>::FloatMinimum;
  using typename FloatSum<Codec>::Element;

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const Element* from) const {
    return hn::Neg(Codec::decode(d, from));
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> v, Element* to) const {
    FloatMinimum<Codec>::store(d, hn::Neg(v), to);
  }
};

template <class Codec>
void fold_float_average(void* to, const void* const* sources, uint32_t source_count, uint64_t count,
                        const FoldOptions& options) {
  if (options.divisor == 0) {
    fold<FloatSum<Codec>>(to, sources, source_count, count, options);
  } else if (std::has_single_bit(options.divisor)) {
    fold<FloatAverage<Codec, true>>(to, sources, source_count, count, options);
  } else {
    fold<FloatAverage<Codec, false>>(to, sources, source_count, count, options);
  }
}

template <class Codec>
Fold find_fold_of(ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::sum:
      return &fold<FloatSum<Codec>>;
    case ReduceOp::Kind::average:
      return &fold_float_average<Codec>;
    case ReduceOp::Kind::product:
      return &fold<FloatProduct<Codec>>;
    case ReduceOp::Kind::minimum:
      return &fold<FloatMinimum<Codec>>;
    case ReduceOp::Kind::maximum:
      return &fold<FloatMaximum<Codec>>;
    case ReduceOp::Kind::premultiplied_sum:
      return &fold<FloatPremultipliedSum<Codec>>;
    default:
      return nullptr;
  }
}

}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // REGROUP_REDUCE_FLOAT_OPERATORS_INL_H_
