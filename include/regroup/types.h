// SPDX-License-Identifier: Apache-2.0
// The vocabulary of collectives: element types, reduction operators, the collectives themselves.
#pragma once

#include <cstdint>
#include <string_view>

namespace regroup {

// A member of a group: 0 … size − 1.
using Rank = uint32_t;

enum class DataType : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  float32,
  float64,
  complex64,
  complex128,
};
inline constexpr int kDataTypes = 17;

// Bytes of one element; 0 for a value outside the enumeration.
constexpr uint64_t size_of(DataType type) {
  constexpr uint8_t sizes[kDataTypes] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 1, 1, 4, 8, 8, 16};
  return static_cast<unsigned>(type) < kDataTypes ? sizes[static_cast<unsigned>(type)] : 0;
}

// How the elements of all ranks become one. `premultiplied_sum` multiplies every contribution by `factor` (the same on
// all ranks) before the sum. `average` divides the sum once, at the end, by the number of ranks.
struct ReduceOp {
  enum class Kind : uint8_t { sum, average, product, minimum, maximum, bit_and, bit_or, bit_xor, premultiplied_sum };

  Kind kind = Kind::sum;
  double factor = 1.0;

  static const ReduceOp sum, average, product, minimum, maximum, bit_and, bit_or, bit_xor;
  static constexpr ReduceOp premultiplied_sum(double factor);

  friend constexpr bool operator==(const ReduceOp&, const ReduceOp&) = default;
};
inline constexpr int kReduceOps = 9;

inline constexpr ReduceOp ReduceOp::sum{Kind::sum, 1.0};
inline constexpr ReduceOp ReduceOp::average{Kind::average, 1.0};
inline constexpr ReduceOp ReduceOp::product{Kind::product, 1.0};
inline constexpr ReduceOp ReduceOp::minimum{Kind::minimum, 1.0};
inline constexpr ReduceOp ReduceOp::maximum{Kind::maximum, 1.0};
inline constexpr ReduceOp ReduceOp::bit_and{Kind::bit_and, 1.0};
inline constexpr ReduceOp ReduceOp::bit_or{Kind::bit_or, 1.0};
inline constexpr ReduceOp ReduceOp::bit_xor{Kind::bit_xor, 1.0};
constexpr ReduceOp ReduceOp::premultiplied_sum(double factor) { return {Kind::premultiplied_sum, factor}; }

enum class Collective : uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  gather,
  all_gather,
  scatter,
  reduce_scatter,
  all_to_all,
  send,
  receive,
  receive_any,
  batch,
};
inline constexpr int kCollectives = 13;

constexpr bool reduces(Collective c) {
  return c == Collective::reduce || c == Collective::all_reduce || c == Collective::reduce_scatter;
}
constexpr bool has_root(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather || c == Collective::scatter;
}
constexpr bool point_to_point(Collective c) {
  return c == Collective::send || c == Collective::receive || c == Collective::receive_any;
}

// Names as users write them: "float32", "premultiplied_sum", "all_to_all"; "?" for a value outside the enumeration.
std::string_view name(DataType type);
std::string_view name(ReduceOp::Kind kind);
std::string_view name(Collective collective);

// The inverse: false, and `*out` untouched, for an unknown name.
bool parse(std::string_view text, DataType* out);
bool parse(std::string_view text, ReduceOp::Kind* out);
bool parse(std::string_view text, Collective* out);

}  // namespace regroup
