// SPDX-License-Identifier: Apache-2.0
// The average of integers: the exact sum, divided once, truncated toward zero.
//
// Up to 32 bits the lanes are floating-point numbers whose mantissa of p bits holds every sum exactly: with 8 and 16
// bits floats (p = 24) for up to 2^16 and 2^8 sources, with 32 bits doubles (p = 53) for up to 2^21. Below 2^p the
// rounded quotient of two integers never reaches an integer that the true quotient did not: it stays at least 1 /
// divisor away, more than half a unit in its last place. So truncating it truncates the true quotient. More sources
// than that, and 64-bit integers, are summed in 128 bits, one by one.
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_integer_average.cc"
#include <hwy/foreach_target.h>

#include "base/assert.h"
#include "reduce/fold-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {
namespace {

template <class T>
struct AverageOfShort {
  using Element = T;
  using Lane = float;
  const float divisor;

  explicit AverageOfShort(const FoldOptions& options) : divisor(static_cast<float>(options.divisor)) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const T* from) const {
    const auto elements = hn::LoadU(hn::Rebind<T, D>(), from);
    return hn::ConvertTo(d, hn::PromoteTo(hn::Rebind<int32_t, D>(), elements));
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> sum, T* to) const {
    const hn::Rebind<T, D> elements;
    const auto quotient = hn::ConvertTo(hn::Rebind<int32_t, D>(), hn::Div(sum, hn::Set(d, divisor)));
    hn::StoreU(hn::DemoteTo(elements, quotient), elements, to);
  }
};

struct AverageOfInt32 {
  using Element = int32_t;
  using Lane = double;
  const double divisor;

  explicit AverageOfInt32(const FoldOptions& options) : divisor(options.divisor) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const int32_t* from) const {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<int32_t, D>(), from));
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> sum, int32_t* to) const {
    const hn::Rebind<int32_t, D> elements;
    hn::StoreU(hn::DemoteTo(elements, hn::Div(sum, hn::Set(d, divisor))), elements, to);
  }
};

// Highway has no conversions between uint32 and double. 2^52 added to a smaller integer leaves it in the last bits.
struct AverageOfUint32 {
  using Element = uint32_t;
  using Lane = double;
  static constexpr double kTwoTo52 = 4503599627370496.0;
  const double divisor;

  explicit AverageOfUint32(const FoldOptions& options) : divisor(options.divisor) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const uint32_t* from) const {
    const hn::Rebind<uint64_t, D> bits;
    const auto offset = hn::Set(d, kTwoTo52);
    const auto elements = hn::PromoteTo(bits, hn::LoadU(hn::Rebind<uint32_t, D>(), from));
    return hn::Sub(hn::BitCast(d, hn::Or(elements, hn::BitCast(bits, offset))), offset);
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> sum, uint32_t* to) const {
    const hn::Rebind<uint32_t, D> elements;
    const auto quotient = hn::Trunc(hn::Div(sum, hn::Set(d, divisor)));
    const auto bits = hn::BitCast(hn::Rebind<uint64_t, D>(), hn::Add(quotient, hn::Set(d, kTwoTo52)));
    hn::StoreU(hn::TruncateTo(elements, bits), elements, to);
  }
};

Fold find_average(DataType type) {
  switch (type) {
    case DataType::int8:
      return &fold<AverageOfShort<int8_t>>;
    case DataType::int16:
      return &fold<AverageOfShort<int16_t>>;
    case DataType::int32:
      return &fold<AverageOfInt32>;
    case DataType::uint8:
      return &fold<AverageOfShort<uint8_t>>;
    case DataType::uint16:
      return &fold<AverageOfShort<uint16_t>>;
    case DataType::uint32:
      return &fold<AverageOfUint32>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduction {
namespace {

HWY_EXPORT(find_average);

__extension__ using Wide = __int128;

// The largest divisor, and hence number of sources, for which the vector kernels are exact; 0 where there is none.
template <class T>
constexpr uint32_t kLargestExact = sizeof(T) == 1   ? 1u << 16
                                   : sizeof(T) == 2 ? 1u << 8
                                   : sizeof(T) == 4 ? 1u << 21
                                                    : 0;

template <class T>
T truncated_quotient(Wide sum, uint32_t divisor) {
  // A division of 64 bits is several times as fast, and almost always enough.
  if (sum == static_cast<int64_t>(sum)) return static_cast<T>(static_cast<int64_t>(sum) / int64_t{divisor});
  return static_cast<T>(sum / divisor);
}

template <class T>
void fold_wide(void* to, const void* const* sources, uint32_t source_count, uint64_t count, uint32_t divisor) {
  for (uint64_t i = 0; i < count; ++i) {
    Wide sum = 0;
    for (uint32_t s = 0; s < source_count; ++s) sum += static_cast<const T*>(sources[s])[i];
    static_cast<T*>(to)[i] = truncated_quotient<T>(sum, divisor);
  }
}

template <DataType type, class T>
void fold_average(void* to, const void* const* sources, uint32_t source_count, uint64_t count,
                  const FoldOptions& options) {
  if (options.divisor == 0) {
    find_integer_fold(type, ReduceOp::Kind::sum)(to, sources, source_count, count, options);
    return;
  }
  REGROUP_ASSERT(options.divisor >= source_count);  // so that the quotient fits the type
  if (options.divisor > kLargestExact<T>) {
    fold_wide<T>(to, sources, source_count, count, options.divisor);
  } else {
    HWY_DYNAMIC_DISPATCH(find_average)(type)(to, sources, source_count, count, options);
  }
}

}  // namespace

Fold find_integer_average_fold(DataType type) {
  switch (type) {
    case DataType::int8:
      return &fold_average<DataType::int8, int8_t>;
    case DataType::int16:
      return &fold_average<DataType::int16, int16_t>;
    case DataType::int32:
      return &fold_average<DataType::int32, int32_t>;
    case DataType::int64:
      return &fold_average<DataType::int64, int64_t>;
    case DataType::uint8:
      return &fold_average<DataType::uint8, uint8_t>;
    case DataType::uint16:
      return &fold_average<DataType::uint16, uint16_t>;
    case DataType::uint32:
      return &fold_average<DataType::uint32, uint32_t>;
    case DataType::uint64:
      return &fold_average<DataType::uint64, uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace regroup::reduction
#endif
