// SPDX-License-Identifier: Apache-2.0
// What the kernels of src/reduce/ should yield, element by element, written with arithmetic as unlike theirs as
// possible: formats through ldexp and nearbyint, integers through 128 bits. Slow.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "reduce/reduce.h"

namespace regroup::reduction::reference {

using Kind = ReduceOp::Kind;
using Bytes = std::vector<unsigned char>;
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

// ---- the small floating-point formats

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;
  uint32_t nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t largest() const { return infinities ? (((1u << exponent_bits) - 1) << mantissa_bits) - 1 : sign() - 2; }
};
inline constexpr Format kFloat16{5, 10, true, 0x7e00};
inline constexpr Format kBfloat16{8, 7, true, 0x7fc0};
inline constexpr Format kFloat8E4m3fn{4, 3, false, 0x7f};
inline constexpr Format kFloat8E5m2{5, 2, true, 0x7e};

inline double decode(const Format& format, uint32_t bits) {
  const double sign = (bits & format.sign()) != 0 ? -1.0 : 1.0;
  const uint32_t magnitude = bits & (format.sign() - 1);
  if (magnitude > format.largest()) {
    if (format.infinities && magnitude == format.largest() + 1) return sign * std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - format.bias() - format.mantissa_bits);
}

inline uint32_t encode(const Format& format, double value) {
  if (std::isnan(value)) return format.nan;
  const uint32_t sign = std::signbit(value) ? format.sign() : 0;
  const uint32_t overflow = format.infinities ? sign | (format.largest() + 1) : sign | format.nan;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return overflow;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias());
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // Counting from zero in units of the last place, exponents are numbered through: a carry needs no care.
  const uint32_t before = static_cast<uint32_t>(exponent + format.bias() - 1) << format.mantissa_bits;
  const uint32_t bits = before + static_cast<uint32_t>(units);
  return bits > format.largest() ? overflow : sign | bits;
}

// ---- arithmetic on one element

template <class T>
T rounded(T value) {
  volatile T stored = value;  // no excess precision, no fusing with what follows
  return stored;
}

template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <class T>
T fold_floats(Kind op, std::span<const T> values, const FoldOptions& options) {
  const T factor = op == Kind::premultiplied_sum ? static_cast<T>(options.factor) : T{1};
  T result = rounded(values[0] * factor);
  for (size_t i = 1; i < values.size(); ++i) {
    const T next = rounded(values[i] * factor);
    if (op == Kind::product) {
      result = rounded(result * next);
    } else if (op == Kind::minimum || op == Kind::maximum) {
      const bool tie = result == next;
      const bool smaller = tie ? std::signbit(next) : next < result;
      if (std::isnan(result) || std::isnan(next)) {
        result = std::numeric_limits<T>::quiet_NaN();
      } else if (smaller == (op == Kind::minimum)) {
        result = next;
      }
    } else {
      result = rounded(result + next);
    }
  }
  if (op == Kind::average && options.divisor != 0) result = rounded(result / static_cast<T>(options.divisor));
  return canonical(result);
}

template <class T>
T fold_integers(Kind op, std::span<const T> values, const FoldOptions& options) {
  Int128 result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    const Int128 next = values[i];
    if (op == Kind::sum || op == Kind::average) result += next;
    if (op == Kind::product) result = static_cast<T>(static_cast<Uint128>(result) * static_cast<Uint128>(next));
    if (op == Kind::minimum) result = next < result ? next : result;
    if (op == Kind::maximum) result = next > result ? next : result;
    if (op == Kind::bit_and) result &= next;
    if (op == Kind::bit_or) result |= next;
    if (op == Kind::bit_xor) result ^= next;
  }
  if (op == Kind::average && options.divisor != 0) result /= options.divisor;
  return static_cast<T>(result);
}

inline uint8_t fold_booleans(Kind op, std::span<const uint8_t> values) {
  size_t set = 0;
  for (const uint8_t value : values) set += value != 0;
  if (op == Kind::sum || op == Kind::maximum || op == Kind::bit_or) return set > 0;
  if (op == Kind::bit_xor) return set % 2;
  return set == values.size();
}

// ---- arrays

template <class T>
T element(const void* array, uint64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

// `fold_one(values)` for the values of all sources at each index.
template <class T, class FoldOne>
Bytes for_each_element(std::span<const void* const> sources, uint64_t count, FoldOne fold_one) {
  Bytes result(count * sizeof(T));
  std::vector<T> values(sources.size());
  for (uint64_t i = 0; i < count; ++i) {
    for (size_t s = 0; s < sources.size(); ++s) values[s] = element<T>(sources[s], i);
    const T folded = fold_one(std::span<const T>(values));
    std::memcpy(result.data() + i * sizeof(T), &folded, sizeof(T));
  }
  return result;
}

template <class T>
Bytes fold_small_floats(const Format& format, Kind op, std::span<const void* const> sources, uint64_t count,
                        const FoldOptions& options) {
  std::vector<float> decoded(sources.size());
  return for_each_element<T>(sources, count, [&](std::span<const T> values) {
    for (size_t s = 0; s < values.size(); ++s) decoded[s] = static_cast<float>(decode(format, values[s]));
    return static_cast<T>(encode(format, fold_floats<float>(op, decoded, options)));
  });
}

template <class T>
Bytes fold_complex_product(std::span<const void* const> sources, uint64_t count) {
  Bytes result(count * 2 * sizeof(T));
  for (uint64_t i = 0; i < count; ++i) {
    T part[2] = {element<T>(sources[0], 2 * i), element<T>(sources[0], 2 * i + 1)};
    for (size_t s = 1; s < sources.size(); ++s) {
      const T c = element<T>(sources[s], 2 * i);
      const T d = element<T>(sources[s], 2 * i + 1);
      const T real = rounded(rounded(part[0] * c) - rounded(part[1] * d));
      part[1] = rounded(rounded(part[0] * d) + rounded(part[1] * c));
      part[0] = real;
    }
    part[0] = canonical(part[0]);
    part[1] = canonical(part[1]);
    std::memcpy(result.data() + i * sizeof(part), part, sizeof(part));
  }
  return result;
}

template <class T>
Bytes fold_numbers(Kind op, std::span<const void* const> sources, uint64_t count, const FoldOptions& options) {
  return for_each_element<T>(sources, count, [&](std::span<const T> values) {
    if constexpr (std::is_floating_point_v<T>) {
      return fold_floats<T>(op, values, options);
    } else {
      return fold_integers<T>(op, values, options);
    }
  });
}

inline Bytes fold(DataType type, Kind op, std::span<const void* const> sources, uint64_t count,
                  const FoldOptions& options) {
  switch (type) {
    case DataType::boolean:
      return for_each_element<uint8_t>(sources, count, [&](auto values) { return fold_booleans(op, values); });
    case DataType::int8:
      return fold_numbers<int8_t>(op, sources, count, options);
    case DataType::int16:
      return fold_numbers<int16_t>(op, sources, count, options);
    case DataType::int32:
      return fold_numbers<int32_t>(op, sources, count, options);
    case DataType::int64:
      return fold_numbers<int64_t>(op, sources, count, options);
    case DataType::uint8:
      return fold_numbers<uint8_t>(op, sources, count, options);
    case DataType::uint16:
      return fold_numbers<uint16_t>(op, sources, count, options);
    case DataType::uint32:
      return fold_numbers<uint32_t>(op, sources, count, options);
    case DataType::uint64:
      return fold_numbers<uint64_t>(op, sources, count, options);
    case DataType::float16:
      return fold_small_floats<uint16_t>(kFloat16, op, sources, count, options);
    case DataType::bfloat16:
      return fold_small_floats<uint16_t>(kBfloat16, op, sources, count, options);
    case DataType::float8_e4m3fn:
      return fold_small_floats<uint8_t>(kFloat8E4m3fn, op, sources, count, options);
    case DataType::float8_e5m2:
      return fold_small_floats<uint8_t>(kFloat8E5m2, op, sources, count, options);
    case DataType::float32:
      return fold_numbers<float>(op, sources, count, options);
    case DataType::float64:
      return fold_numbers<double>(op, sources, count, options);
    case DataType::complex64:
      if (op == Kind::product) return fold_complex_product<float>(sources, count);
      return fold_numbers<float>(op, sources, 2 * count, options);
    case DataType::complex128:
      if (op == Kind::product) return fold_complex_product<double>(sources, count);
      return fold_numbers<double>(op, sources, 2 * count, options);
  }
  return {};
}

}  // namespace regroup::reduction::reference
