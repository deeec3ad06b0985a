// SPDX-License-Identifier: Apache-2.0
// The suite's own parts: a judge has to be judged too.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "algorithms/catalogue.h"
#include "conformance/item.h"
#include "conformance/numbers.h"
#include "conformance/pairwise.h"
#include "conformance/suite.h"
#include "conformance/values.h"

namespace regroup::conformance {
namespace {

constexpr DataType kSmall[] = {DataType::float16, DataType::bfloat16, DataType::float8_e4m3fn, DataType::float8_e5m2};

TEST(SmallFloats, EncodingInvertsDecoding) {
  for (const DataType type : kSmall) {
    const uint32_t codes = 1u << (8 * size_of(type));
    for (uint32_t code = 0; code < codes; ++code) {
      const float value = decode_small(type, code);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode_small(type, value), code) << name(type) << ' ' << value;
    }
  }
}

TEST(SmallFloats, RoundToNearestEven) {
  EXPECT_EQ(encode_small(DataType::float16, 1.0f), 0x3c00u);
  EXPECT_EQ(encode_small(DataType::float16, 65504.0f), 0x7bffu);
  EXPECT_EQ(encode_small(DataType::float16, 65519.0f), 0x7bffu);
  EXPECT_EQ(encode_small(DataType::float16, 65520.0f), 0x7c00u);
  EXPECT_EQ(encode_small(DataType::float16, 2049.0f), encode_small(DataType::float16, 2048.0f));
  EXPECT_EQ(encode_small(DataType::float16, 2051.0f), encode_small(DataType::float16, 2052.0f));
  EXPECT_EQ(encode_small(DataType::float16, std::ldexp(1.0f, -25)), 0u);
  EXPECT_EQ(encode_small(DataType::float16, std::ldexp(1.5f, -25)), 1u);
  EXPECT_EQ(encode_small(DataType::bfloat16, 1.0f), 0x3f80u);
  EXPECT_EQ(encode_small(DataType::float8_e4m3fn, 448.0f), 0x7eu);
  EXPECT_EQ(encode_small(DataType::float8_e4m3fn, -std::numeric_limits<float>::infinity()), 0xffu);
  EXPECT_EQ(encode_small(DataType::float8_e5m2, 57344.0f), 0x7bu);
  EXPECT_EQ(encode_small(DataType::float8_e5m2, 1e9f), 0x7cu);
}

TEST(SmallFloats, QuickEncodingIsTheDefinition) {
  uint32_t bits = 1;
  for (int i = 0; i < 300000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    // Also values just around those that the formats hold, and ties.
    const float value = std::bit_cast<float>(i % 3 == 0 ? bits : i % 3 == 1 ? bits & 0xfff00000u : bits & 0xffff8000u);
    for (const DataType type : kSmall) {
      ASSERT_EQ(encode_small(type, value), encode_by_definition(type, value)) << name(type) << ' ' << value;
    }
  }
}

TEST(Values, DifferByRankPartAndIndex) {
  const ValueRule rule{DataType::uint64, ReduceOp::sum, false, Values::exact, 1};
  std::set<uint64_t> seen;
  for (Rank rank = 0; rank < 4; ++rank) {
    for (uint64_t part = 0; part < 4; ++part) {
      uint64_t values[16];
      fill(rule, rank, part, 5, 16, values);
      seen.insert(values, values + 16);
    }
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST(Values, AreExactInAnyOrder) {
  for (const ReduceOp::Kind op : {ReduceOp::Kind::sum, ReduceOp::Kind::product}) {
    const ValueRule rule{DataType::float32, ReduceOp{op, 1.0}, true, Values::exact, 7};
    float forward, backward = op == ReduceOp::Kind::sum ? 0.0f : 1.0f;
    expect_reduction(rule, 17, 0, 3, 1, &forward);
    for (Rank rank = 17; rank-- > 0;) {
      float value;
      fill(rule, rank, 0, 3, 1, &value);
      backward = op == ReduceOp::Kind::sum ? backward + value : backward * value;
    }
    EXPECT_EQ(forward, backward);
  }
}

TEST(Values, AWrongElementIsSeen) {
  const ValueRule rule{DataType::float16, ReduceOp::sum, true, Values::rounding, 7};
  uint16_t wanted[8], got[8];
  expect_reduction(rule, 3, 0, 0, 8, wanted);
  std::copy(wanted, wanted + 8, got);
  EXPECT_EQ(first_difference(rule, 3, false, got, wanted, 8), kNone);
  got[5] ^= 1;
  EXPECT_EQ(first_difference(rule, 3, false, got, wanted, 8), 5u);
}

TEST(Cases, HaveNamesThatLeadBack) {
  for (const Row& row : covering_rows(everything(), 1)) {
    ASSERT_EQ(normalized(row), row) << id_of(row);
    const std::optional<Row> again = row_of(id_of(row));
    ASSERT_TRUE(again.has_value()) << id_of(row);
    ASSERT_EQ(*again, row);
  }
  EXPECT_FALSE(row_of("all_reduce:float32").has_value());
  EXPECT_FALSE(parse_item("refusal:nothing:shm:2:threads").has_value());
}

// Every pair of values that some random row has must be in a chosen row too.
TEST(Cases, CoverEveryPair) {
  const Space space = everything();
  const std::vector<Row> rows = covering_rows(space, 1);
  EXPECT_GE(rows.size(), 2000u);
  const auto key = [](size_t a, size_t b, const Row& row) { return ((a * 32 + b) * 32 + row[a]) * 32 + row[b]; };
  std::set<size_t> covered;
  for (const Row& row : rows) {
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) covered.insert(key(a, b, row));
    }
  }
  size_t missing = 0;
  for (const Row& row : covering_rows(space, 99)) {
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) missing += covered.contains(key(a, b, row)) ? 0 : 1;
    }
  }
  EXPECT_EQ(missing, 0u);
}

TEST(Cases, ReachEveryAlgorithm) {
  std::set<std::pair<Collective, std::string_view>> reached;
  for (const Row& row : covering_rows(everything(), 1)) {
    const Case c = case_of(row);
    if (!algorithm_of(c).empty()) reached.insert({c.collective, algorithm_of(c)});
  }
  EXPECT_EQ(reached.size(), algorithms::catalogue().size());
}

}  // namespace
}  // namespace regroup::conformance
