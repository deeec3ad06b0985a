// SPDX-License-Identifier: Apache-2.0
#include "conformance/values.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <sstream>
#include <type_traits>
#include <vector>

#include "conformance/numbers.h"

namespace regroup::conformance {

namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

constexpr uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t part_key(const ValueRule& rule, Rank rank, uint64_t part) {
  return scramble(rule.seed ^ scramble(rank * 0x10001ull + scramble(part)));
}

// --- each type as a traits class: how it is stored (Stored), and in what reductions are computed (Wide).

template <typename T>
struct IntegerTraits {
  using Stored = T;
  using Wide = Int128;
  static Wide widen(Stored x) { return x; }
  static Stored narrow(Wide x) { return static_cast<Stored>(x); }  // wraps around
};

template <typename T>
struct PlainTraits {
  using Stored = T;
  using Wide = T;
  static Wide widen(Stored x) { return x; }
  static Stored narrow(Wide x) { return x; }
};

struct BoolTraits {
  using Stored = uint8_t;
  using Wide = bool;
  static Wide widen(Stored x) { return x != 0; }
  static Stored narrow(Wide x) { return x ? 1 : 0; }
};

template <DataType kType, typename Bits>
struct SmallTraits {
  using Stored = Bits;
  using Wide = float;
  static Wide widen(Stored x) { return decode_small(kType, x); }
  static Stored narrow(Wide x) { return static_cast<Stored>(encode_small(kType, x)); }
};

template <typename Visitor>
auto visit(DataType type, Visitor visitor) {
  switch (type) {
    case DataType::boolean:
      return visitor(BoolTraits{});
    case DataType::int8:
      return visitor(IntegerTraits<int8_t>{});
    case DataType::int16:
      return visitor(IntegerTraits<int16_t>{});
    case DataType::int32:
      return visitor(IntegerTraits<int32_t>{});
    case DataType::int64:
      return visitor(IntegerTraits<int64_t>{});
    case DataType::uint8:
      return visitor(IntegerTraits<uint8_t>{});
    case DataType::uint16:
      return visitor(IntegerTraits<uint16_t>{});
    case DataType::uint32:
      return visitor(IntegerTraits<uint32_t>{});
    case DataType::uint64:
      return visitor(IntegerTraits<uint64_t>{});
    case DataType::float16:
      return visitor(SmallTraits<DataType::float16, uint16_t>{});
    case DataType::bfloat16:
      return visitor(SmallTraits<DataType::bfloat16, uint16_t>{});
    case DataType::float8_e4m3fn:
      return visitor(SmallTraits<DataType::float8_e4m3fn, uint8_t>{});
    case DataType::float8_e5m2:
      return visitor(SmallTraits<DataType::float8_e5m2, uint8_t>{});
    case DataType::float32:
      return visitor(PlainTraits<float>{});
    case DataType::float64:
      return visitor(PlainTraits<double>{});
    case DataType::complex64:
      return visitor(PlainTraits<std::complex<float>>{});
    default:
      return visitor(PlainTraits<std::complex<double>>{});
  }
}

template <typename T>
inline constexpr bool kComplex = false;
template <typename T>
inline constexpr bool kComplex<std::complex<T>> = true;

// --- values

// Whole numbers that stay exact when 17 of them, times a small factor, are added in the type in which sums are kept;
// narrow formats hold few whole numbers.
int64_t exact_range(DataType type) {
  switch (type) {
    case DataType::float8_e4m3fn:
      return 16;
    case DataType::float8_e5m2:
      return 8;
    case DataType::bfloat16:
      return 256;
    case DataType::float16:
      return 2048;
    case DataType::float32:
    case DataType::complex64:
      return int64_t{1} << 17;
    default:
      return int64_t{1} << 40;
  }
}

template <typename Real>
Real exact_real(const ValueRule& rule, Rank rank, uint64_t random) {
  if (rule.op.kind == ReduceOp::Kind::product) {
    // Powers of two of either sign; all but four ranks give ±1, so that the product stays small.
    const int exponent = rank % 4 == 0 && rank < 16 ? static_cast<int>(random % 3) - 1 : 0;
    return std::ldexp(Real(1), exponent) * ((random >> 40) & 1 ? Real(-1) : Real(1));
  }
  const int64_t range = exact_range(rule.type);
  return static_cast<Real>(static_cast<int64_t>(random % static_cast<uint64_t>(2 * range + 1)) - range);
}

template <typename Real>
Real rounding_real(const ValueRule& rule, uint64_t random) {
  const Real fraction = static_cast<Real>(random >> 40) / static_cast<Real>(1 << 24);  // [0, 1)
  const Real sign = random & 1 ? Real(-1) : Real(1);
  if (rule.op.kind == ReduceOp::Kind::product) return sign * (Real(0.875) + fraction / 4);
  const int exponent = static_cast<int>((random >> 1) % 4);
  return sign * std::ldexp(Real(1) + fraction, exponent);
}

template <typename Real>
Real real_value(const ValueRule& rule, Rank rank, uint64_t random) {
  if (rule.values == Values::rounding) return rounding_real<Real>(rule, random);
  if (rule.values == Values::special) {
    // Rare enough that an element of many ranks is not always NaN.
    const uint64_t die = (random >> 8) % 64;
    if (die == 0) return std::numeric_limits<Real>::quiet_NaN();
    if (die < 3 && !small_float(rule.type).finite_only) {
      return die == 1 ? std::numeric_limits<Real>::infinity() : -std::numeric_limits<Real>::infinity();
    }
  }
  return exact_real<Real>(rule, rank, random);
}

template <typename Traits>
typename Traits::Stored value_of(const ValueRule& rule, Rank rank, uint64_t random) {
  using Stored = typename Traits::Stored;
  using Wide = typename Traits::Wide;
  if constexpr (std::is_same_v<Wide, bool>) {
    return static_cast<Stored>(random >> 63);
  } else if constexpr (std::is_same_v<Wide, Int128>) {
    // Whatever the type holds: sums wrap around. An average of 64-bit integers must fit 128 bits with ease anyway.
    return static_cast<Stored>(random);
  } else if constexpr (kComplex<Wide>) {
    using Real = typename Wide::value_type;
    if (rule.op.kind == ReduceOp::Kind::product && rule.values == Values::exact) {
      const Real length = exact_real<Real>(rule, rank, random);
      return (random >> 41) & 1 ? Wide(length, 0) : Wide(0, length);
    }
    return Wide(real_value<Real>(rule, rank, random), real_value<Real>(rule, rank, scramble(random)));
  } else {
    return Traits::narrow(real_value<Wide>(rule, rank, random));
  }
}

// Any bits at all, NaNs with payload too: what is only moved must arrive as it was.
void fill_bits(uint64_t key, DataType type, uint64_t first, uint64_t count, void* to) {
  const uint64_t width = size_of(type);
  std::byte* at = static_cast<std::byte*>(to);
  for (uint64_t index = first; index < first + count; ++index, at += width) {
    uint64_t words[2] = {scramble(key + index), 0};
    if (width == 16) words[1] = scramble(words[0]);
    if (type == DataType::boolean) words[0] >>= 63;
    std::memcpy(at, words, width);
  }
}

// --- reduction

template <typename Wide>
Wide combine(ReduceOp::Kind kind, Wide a, Wide b) {
  switch (kind) {
    case ReduceOp::Kind::product:
      if constexpr (std::is_same_v<Wide, bool>)
        return a && b;
      else if constexpr (std::is_same_v<Wide, Int128>)
        return static_cast<Int128>(static_cast<UInt128>(a) * static_cast<UInt128>(b));  // wraps around
      else
        return a * b;
    case ReduceOp::Kind::minimum:
    case ReduceOp::Kind::maximum:
      if constexpr (!kComplex<Wide>) {
        if constexpr (std::is_floating_point_v<Wide>) {
          if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Wide>::quiet_NaN();
        }
        return (kind == ReduceOp::Kind::minimum) == (b < a) ? b : a;
      }
      return a;
    case ReduceOp::Kind::bit_and:
      if constexpr (std::is_integral_v<Wide> || std::is_same_v<Wide, Int128>) return a & b;
      return a;
    case ReduceOp::Kind::bit_or:
      if constexpr (std::is_integral_v<Wide> || std::is_same_v<Wide, Int128>) return a | b;
      return a;
    case ReduceOp::Kind::bit_xor:
      if constexpr (std::is_integral_v<Wide> || std::is_same_v<Wide, Int128>) return a ^ b;
      return a;
    default:  // sum, average, premultiplied_sum
      if constexpr (std::is_same_v<Wide, bool>)
        return a || b;
      else
        return a + b;
  }
}

template <typename Wide>
Wide scaled(Wide x, double factor) {
  if constexpr (std::is_floating_point_v<Wide>) return x * static_cast<Wide>(factor);
  if constexpr (kComplex<Wide>) return x * static_cast<typename Wide::value_type>(factor);
  return x;
}

template <typename Wide>
Wide divided(Wide x, Rank ranks) {
  if constexpr (std::is_same_v<Wide, bool>)
    return x;
  else if constexpr (kComplex<Wide>)
    return x / static_cast<typename Wide::value_type>(ranks);
  else
    return x / static_cast<Wide>(ranks);  // integers: toward zero
}

template <typename Traits>
void reduce_all(const ValueRule& rule, Rank ranks, uint64_t part, uint64_t first, uint64_t count, void* to) {
  using Stored = typename Traits::Stored;
  using Wide = typename Traits::Wide;
  std::vector<uint64_t> keys(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) keys[rank] = part_key(rule, rank, part);
  const bool premultiplied = rule.op.kind == ReduceOp::Kind::premultiplied_sum;
  std::byte* at = static_cast<std::byte*>(to);
  for (uint64_t index = first; index < first + count; ++index, at += sizeof(Stored)) {
    Wide result{};
    for (Rank rank = 0; rank < ranks; ++rank) {
      Wide x = Traits::widen(value_of<Traits>(rule, rank, scramble(keys[rank] + index)));
      if (premultiplied) x = scaled(x, rule.op.factor);
      // Products wrap around at every step: 17 factors of 64 bits would not fit.
      result = rank == 0 ? x : combine(rule.op.kind, result, x);
      if constexpr (std::is_same_v<Wide, Int128>) {
        if (rule.op.kind == ReduceOp::Kind::product) result = Traits::narrow(result);
      }
    }
    if (rule.op.kind == ReduceOp::Kind::average) result = divided(result, ranks);
    const Stored stored = Traits::narrow(result);
    std::memcpy(at, &stored, sizeof(Stored));
  }
}

// --- comparison

template <typename Wide>
bool same_number(Wide a, Wide b) {
  if constexpr (kComplex<Wide>)
    // The sign of a zero depends on the order in which complex numbers are multiplied.
    return a == b || (same_number(a.real(), b.real()) && same_number(a.imag(), b.imag()));
  else if constexpr (std::is_floating_point_v<Wide>)
    return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
  else
    return a == b;
}

template <typename Wide>
bool near(ReduceOp::Kind kind, Rank ranks, Wide a, Wide b) {
  if constexpr (kComplex<Wide> || std::is_floating_point_v<Wide>) {
    using Real = decltype(std::abs(a));
    // Every rank adds at most a magnitude of 23, and each of the `ranks` roundings loses half a unit of the last place.
    const Real largest = kind == ReduceOp::Kind::product ? std::abs(b) * 8 : Real(23) * static_cast<Real>(ranks);
    return std::abs(a - b) <= std::numeric_limits<Real>::epsilon() * static_cast<Real>(ranks) * largest;
  } else {
    return a == b;
  }
}

}  // namespace

void fill(const ValueRule& rule, Rank rank, uint64_t part, uint64_t first, uint64_t count, void* to) {
  const uint64_t key = part_key(rule, rank, part);
  if (!rule.reduces) return fill_bits(key, rule.type, first, count, to);
  visit(rule.type, [&](auto traits) {
    using Traits = decltype(traits);
    std::byte* at = static_cast<std::byte*>(to);
    for (uint64_t index = first; index < first + count; ++index, at += sizeof(typename Traits::Stored)) {
      const auto stored = value_of<Traits>(rule, rank, scramble(key + index));
      std::memcpy(at, &stored, sizeof stored);
    }
  });
}

void expect_reduction(const ValueRule& rule, Rank ranks, uint64_t part, uint64_t first, uint64_t count, void* to) {
  visit(rule.type, [&](auto traits) { reduce_all<decltype(traits)>(rule, ranks, part, first, count, to); });
}

uint64_t first_difference(const ValueRule& rule, Rank ranks, bool loose, const void* got, const void* want,
                          uint64_t count) {
  if (count == 0 || std::memcmp(got, want, count * size_of(rule.type)) == 0) return kNone;
  if (!rule.reduces) {
    const std::byte *a = static_cast<const std::byte*>(got), *b = static_cast<const std::byte*>(want);
    uint64_t byte = 0;
    while (a[byte] == b[byte]) ++byte;
    return byte / size_of(rule.type);
  }
  return visit(rule.type, [&](auto traits) -> uint64_t {
    using Traits = decltype(traits);
    using Stored = typename Traits::Stored;
    for (uint64_t index = 0; index < count; ++index) {
      Stored a, b;
      std::memcpy(&a, static_cast<const std::byte*>(got) + index * sizeof(Stored), sizeof(Stored));
      std::memcpy(&b, static_cast<const std::byte*>(want) + index * sizeof(Stored), sizeof(Stored));
      const auto x = Traits::widen(a), y = Traits::widen(b);
      if (same_number(x, y)) continue;
      if (loose && near(rule.op.kind, ranks, x, y)) continue;
      return index;
    }
    return kNone;
  });
}

bool exactly_determined(const ValueRule& rule, bool reproducible) {
  if (!rule.reduces || rule.values != Values::rounding) return true;
  const ReduceOp::Kind kind = rule.op.kind;
  if (kind == ReduceOp::Kind::minimum || kind == ReduceOp::Kind::maximum) return true;
  // Products of complex numbers may or may not use fused multiply-add.
  if (is_complex(rule.type) && kind == ReduceOp::Kind::product) return false;
  // Narrow types, and premultiplied sums, are promised to be one fold in rank order.
  if (is_small_float(rule.type) || kind == ReduceOp::Kind::premultiplied_sum) return true;
  return reproducible;
}

bool meaningful(DataType type, ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::bit_and:
    case ReduceOp::Kind::bit_or:
    case ReduceOp::Kind::bit_xor:
      return type == DataType::boolean || is_integer(type);
    case ReduceOp::Kind::minimum:
    case ReduceOp::Kind::maximum:
      return !is_complex(type);
    case ReduceOp::Kind::average:
      return type != DataType::boolean;
    case ReduceOp::Kind::premultiplied_sum:
      return is_float(type) || is_complex(type);
    default:
      return true;
  }
}

std::string show(DataType type, const void* element) {
  std::ostringstream text;
  visit(type, [&](auto traits) {
    using Traits = decltype(traits);
    typename Traits::Stored stored;
    std::memcpy(&stored, element, sizeof stored);
    const auto wide = Traits::widen(stored);
    if constexpr (std::is_same_v<typename Traits::Wide, Int128>) {
      if (wide < 0)
        text << static_cast<int64_t>(wide);
      else
        text << static_cast<uint64_t>(wide);
    } else {
      text << wide;
    }
  });
  text << " (0x" << std::hex;
  for (uint64_t byte = size_of(type); byte-- > 0;) {
    const unsigned value = static_cast<const unsigned char*>(element)[byte];
    text << "0123456789abcdef"[value >> 4] << "0123456789abcdef"[value & 15];
  }
  text << ')';
  return text.str();
}

}  // namespace regroup::conformance
