// SPDX-License-Identifier: Apache-2.0
#include "conformance/numbers.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace regroup::conformance {

namespace {

float decode_by_definition(const SmallFloat& format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1);
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits)) & 1;
  const uint32_t top = (1u << format.exponent_bits) - 1;
  double value;
  if (exponent == top && format.finite_only && mantissa == (1u << format.mantissa_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == top && !format.finite_only) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - bias - format.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa + (1u << format.mantissa_bits)),
                       static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return static_cast<float>(negative ? -value : value);
}

std::vector<float> decoding_table(DataType type) {
  std::vector<float> table(size_t{1} << (8 * size_of(type)));
  for (uint32_t bits = 0; bits < table.size(); ++bits) table[bits] = decode_by_definition(small_float(type), bits);
  return table;
}

}  // namespace

float decode_small(DataType type, uint32_t bits) {
  static const std::array<std::vector<float>, 4> tables = {
      decoding_table(DataType::float16), decoding_table(DataType::bfloat16), decoding_table(DataType::float8_e4m3fn),
      decoding_table(DataType::float8_e5m2)};
  return tables[static_cast<size_t>(type) - static_cast<size_t>(DataType::float16)][bits];
}

uint32_t encode_by_definition(DataType type, float value) {
  const SmallFloat format = small_float(type);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t infinity = top << format.mantissa_bits;
  const uint32_t nan = format.finite_only ? infinity | ((1u << format.mantissa_bits) - 1)
                                          : infinity | (1u << (format.mantissa_bits - 1));
  if (std::isnan(value)) return nan;
  if (std::isinf(value)) return sign | (format.finite_only ? nan : infinity);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;

  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - bias) exponent = 1 - bias;  // subnormal: the spacing no longer shrinks
  // In units of the last place, an integer below 2^(mantissa + 1); nearbyint rounds to nearest even.
  double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const double whole = static_cast<double>(1u << format.mantissa_bits);
  if (units >= 2 * whole) {
    units /= 2;
    ++exponent;
  }
  const uint32_t mantissa = static_cast<uint32_t>(units);
  const uint32_t code = mantissa < (1u << format.mantissa_bits)
                            ? mantissa
                            : (static_cast<uint32_t>(exponent + bias) << format.mantissa_bits) +
                                  (mantissa - (1u << format.mantissa_bits));
  // Past the greatest finite value.
  if (format.finite_only) return sign | (code >= nan ? nan : code);
  return sign | (code > infinity ? infinity : code);
}

// The same for values that are normal in both formats, which most are, by whole-number arithmetic on the float's bits.
uint32_t encode_small(DataType type, float value) {
  const SmallFloat format = small_float(type);
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const uint32_t rebias = 127u - ((1u << (format.exponent_bits - 1)) - 1);
  const uint32_t exponent = magnitude >> 23;
  const uint32_t top = (1u << format.exponent_bits) - 2;
  if (exponent <= rebias || exponent - rebias >= top) return encode_by_definition(type, value);
  const int dropped = 23 - format.mantissa_bits;
  // Half a unit less a bit, and the bit again where the kept part is odd: to nearest even.
  const uint32_t rounded = magnitude + (1u << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1);
  const uint32_t code = (rounded >> dropped) - (rebias << format.mantissa_bits);
  return code | (bits >> 31) << (format.exponent_bits + format.mantissa_bits);
}

}  // namespace regroup::conformance
