// SPDX-License-Identifier: Apache-2.0
#include "regroup/types.h"

#include <iterator>

namespace regroup {

namespace {

constexpr std::string_view kTypeNames[kDataTypes] = {
    "bool",    "int8",     "int16",         "int32",       "int64",   "uint8",   "uint16",    "uint32",    "uint64",
    "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64", "complex64", "complex128"};
constexpr std::string_view kOpNames[kReduceOps] = {"sum",     "average", "product", "minimum",          "maximum",
                                                   "bit_and", "bit_or",  "bit_xor", "premultiplied_sum"};
constexpr std::string_view kCollectiveNames[kCollectives] = {
    "barrier",        "broadcast",  "reduce", "all_reduce", "gather",      "all_gather", "scatter",
    "reduce_scatter", "all_to_all", "send",   "receive",    "receive_any", "batch"};

template <typename E, size_t N>
std::string_view name_in(const std::string_view (&names)[N], E value) {
  return static_cast<size_t>(value) < N ? names[static_cast<size_t>(value)] : "?";
}

template <typename E, size_t N>
bool parse_in(const std::string_view (&names)[N], std::string_view text, E* out) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] != text) continue;
    *out = static_cast<E>(i);
    return true;
  }
  return false;
}

}  // namespace

std::string_view name(DataType type) { return name_in(kTypeNames, type); }
std::string_view name(ReduceOp::Kind kind) { return name_in(kOpNames, kind); }
std::string_view name(Collective collective) { return name_in(kCollectiveNames, collective); }
bool parse(std::string_view text, DataType* out) { return parse_in(kTypeNames, text, out); }
bool parse(std::string_view text, ReduceOp::Kind* out) { return parse_in(kOpNames, text, out); }
bool parse(std::string_view text, Collective* out) { return parse_in(kCollectiveNames, text, out); }

}  // namespace regroup
