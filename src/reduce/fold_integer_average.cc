// SPDX-License-Identifier: Apache-2.0
// The average of integers: the exact sum, divided once, truncated toward zero.
//
// Up to 32 bits the lanes are doubles. Fewer than 2^21 sources of 32 bits sum to less than 2^53, so every sum is exact;
// and below 2^53 the rounded quotient of two integers never reaches an integer that the true quotient did not (it stays
// at least 1 / divisor away, more than half a unit in its last place), so truncating it truncates the true quotient.
// 64-bit integers are summed in 128 bits, one by one.
#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/fold_integer_average.cc"
#include <hwy/foreach_target.h>

#include <limits>

#include "base/assert.h"
#include "reduce/fold-inl.h"
#include "reduce/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduce::HWY_NAMESPACE {
namespace {

// 2^52: adding it to a smaller integer puts that integer into the low bits of the double, and the other way around.
constexpr double kTwoTo52 = 4503599627370496.0;

template <class T>
struct IntegerAverage {
  using Element = T;
  using Lane = double;
  const double divisor;

  explicit IntegerAverage(const FoldOptions& options) : divisor(options.divisor) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> load(D d, const T* from) const {
    const auto elements = hn::LoadU(hn::Rebind<T, D>(), from);
    if constexpr (std::numeric_limits<T>::max() == std::numeric_limits<uint32_t>::max()) {
      const auto offset = hn::Set(d, kTwoTo52);
      const hn::Rebind<uint64_t, D> bits;
      return hn::Sub(hn::BitCast(d, hn::Or(hn::PromoteTo(bits, elements), hn::BitCast(bits, offset))), offset);
    } else if constexpr (sizeof(T) == 4) {
      return hn::PromoteTo(d, elements);
    } else {
      return hn::PromoteTo(d, hn::PromoteTo(hn::Rebind<int32_t, D>(), elements));
    }
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> combine(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::VFromD<D> sum, T* to) const {
    const hn::Rebind<T, D> elements;
    const auto quotient = hn::Div(sum, hn::Set(d, divisor));
    if constexpr (std::numeric_limits<T>::max() == std::numeric_limits<uint32_t>::max()) {
      const hn::Rebind<uint64_t, D> bits;
      const auto shifted = hn::Add(hn::Trunc(quotient), hn::Set(d, kTwoTo52));
      hn::StoreU(hn::TruncateTo(elements, hn::BitCast(bits, shifted)), elements, to);
    } else if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::DemoteTo(elements, quotient), elements, to);
    } else {
      const hn::Rebind<int32_t, D> whole;
      hn::StoreU(hn::DemoteTo(elements, hn::DemoteTo(whole, quotient)), elements, to);
    }
  }
};

Fold find_average(DataType type) {
  switch (type) {
    case DataType::int8:
      return &fold<IntegerAverage<int8_t>>;
    case DataType::int16:
      return &fold<IntegerAverage<int16_t>>;
    case DataType::int32:
      return &fold<IntegerAverage<int32_t>>;
    case DataType::uint8:
      return &fold<IntegerAverage<uint8_t>>;
    case DataType::uint16:
      return &fold<IntegerAverage<uint16_t>>;
    case DataType::uint32:
      return &fold<IntegerAverage<uint32_t>>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace regroup::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduce {
namespace {

HWY_EXPORT(find_average);

__extension__ using Wide = __int128;

constexpr uint32_t kExactSources = uint32_t{1} << 21;

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
  if (sizeof(T) == 8 || source_count >= kExactSources) {
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

}  // namespace regroup::reduce
#endif
