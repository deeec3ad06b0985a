// SPDX-License-Identifier: Apache-2.0
// What reduce.h promises, one promise a test, with the numbers spelt out.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reduce/reduce.h"
#include "unit/reduce_targets.h"

namespace regroup::reduction {
namespace {

using Kind = ReduceOp::Kind;

template <class T>
T fold_values(DataType type, Kind op, const std::vector<T>& values, FoldOptions options = {}) {
  std::vector<const void*> sources;
  for (const T& value : values) sources.push_back(&value);
  T result{};
  find_fold(type, op)(&result, sources.data(), static_cast<uint32_t>(sources.size()), 1, options);
  return result;
}

bool is_integer(DataType type) { return type >= DataType::int8 && type <= DataType::uint64; }
bool is_complex(DataType type) { return type == DataType::complex64 || type == DataType::complex128; }
bool is_bits(Kind op) { return op == Kind::bit_and || op == Kind::bit_or || op == Kind::bit_xor; }

TEST(ReduceSemantics, UnsupportedPairs) {
  for (int t = 0; t < kDataTypes; ++t) {
    for (int o = 0; o < kReduceOps; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<Kind>(o);
      const bool counts = is_integer(type) || type == DataType::boolean;
      bool expected = true;
      if (is_bits(op)) expected = counts;
      if (op == Kind::minimum || op == Kind::maximum) expected = !is_complex(type);
      if (op == Kind::average) expected = type != DataType::boolean;
      if (op == Kind::premultiplied_sum) expected = !counts;
      EXPECT_EQ(supported(type, op), expected) << name(type) << " " << name(op);
      EXPECT_EQ(find_fold(type, op) != nullptr, expected) << name(type) << " " << name(op);
    }
  }
  EXPECT_EQ(find_fold(static_cast<DataType>(kDataTypes), Kind::sum), nullptr);
  EXPECT_EQ(find_fold(DataType::float32, static_cast<Kind>(kReduceOps)), nullptr);
}

TEST(ReduceSemantics, PartialResults) {
  EXPECT_TRUE(partial_results_allowed(DataType::float32, Kind::sum));
  EXPECT_TRUE(partial_results_allowed(DataType::float64, Kind::average));
  EXPECT_TRUE(partial_results_allowed(DataType::complex64, Kind::product));
  EXPECT_TRUE(partial_results_allowed(DataType::boolean, Kind::bit_xor));
  EXPECT_TRUE(partial_results_allowed(DataType::int32, Kind::product));
  EXPECT_TRUE(partial_results_allowed(DataType::float16, Kind::maximum));
  EXPECT_FALSE(partial_results_allowed(DataType::float16, Kind::sum));
  EXPECT_FALSE(partial_results_allowed(DataType::bfloat16, Kind::average));
  EXPECT_FALSE(partial_results_allowed(DataType::float8_e4m3fn, Kind::product));
  EXPECT_FALSE(partial_results_allowed(DataType::float8_e5m2, Kind::premultiplied_sum));
  EXPECT_FALSE(partial_results_allowed(DataType::int64, Kind::average));
  EXPECT_FALSE(partial_results_allowed(DataType::float32, Kind::premultiplied_sum));
  EXPECT_FALSE(partial_results_allowed(DataType::float32, Kind::bit_and));
  EXPECT_FALSE(partial_results_allowed(DataType::complex128, Kind::minimum));
}

TEST(ReduceSemantics, IntegersWrapAround) {
  for_each_target([](const char*) {
    EXPECT_EQ(fold_values<int8_t>(DataType::int8, Kind::sum, {127, 1}), -128);
    EXPECT_EQ(fold_values<int32_t>(DataType::int32, Kind::product, {1 << 20, 1 << 20}), 0);
    EXPECT_EQ(fold_values<int64_t>(DataType::int64, Kind::sum, {INT64_MAX, INT64_MAX}), -2);
    EXPECT_EQ(fold_values<uint16_t>(DataType::uint16, Kind::product, {0xffff, 0xffff}), 1);
  });
}

TEST(ReduceSemantics, IntegerAveragesTruncateTowardZero) {
  for_each_target([](const char*) {
    EXPECT_EQ(fold_values<int8_t>(DataType::int8, Kind::average, {-128, -128, -128}, {.divisor = 3}), -128);
    EXPECT_EQ(fold_values<int16_t>(DataType::int16, Kind::average, {-3, 0}, {.divisor = 2}), -1);
    EXPECT_EQ(fold_values<int32_t>(DataType::int32, Kind::average, {INT32_MAX, INT32_MAX}, {.divisor = 2}), INT32_MAX);
    EXPECT_EQ(fold_values<int32_t>(DataType::int32, Kind::average, {INT32_MIN, INT32_MIN}, {.divisor = 2}), INT32_MIN);
    EXPECT_EQ(fold_values<uint32_t>(DataType::uint32, Kind::average, {UINT32_MAX, UINT32_MAX - 1}, {.divisor = 2}),
              UINT32_MAX - 1);
    EXPECT_EQ(fold_values<int64_t>(DataType::int64, Kind::average, {INT64_MIN, INT64_MIN, INT64_MIN}, {.divisor = 3}),
              INT64_MIN);
    EXPECT_EQ(fold_values<int64_t>(DataType::int64, Kind::average, {INT64_MAX, INT64_MAX}, {.divisor = 2}), INT64_MAX);
    EXPECT_EQ(fold_values<int64_t>(DataType::int64, Kind::average, {-7, 0}, {.divisor = 2}), -3);
    EXPECT_EQ(fold_values<uint64_t>(DataType::uint64, Kind::average, {UINT64_MAX, UINT64_MAX}, {.divisor = 2}),
              UINT64_MAX);
  });
}

// Quotients that lie a hair below an integer must not be rounded up to it.
TEST(ReduceSemantics, IntegerAveragesAreExactAcrossManySources) {
  constexpr uint32_t kSources = 100000;
  const uint32_t large = UINT32_MAX;
  const uint32_t smaller = UINT32_MAX - 1;
  std::vector<const void*> sources(kSources, &large);
  sources.back() = &smaller;
  for_each_target([&](const char*) {
    uint32_t result = 0;
    find_fold(DataType::uint32, Kind::average)(&result, sources.data(), kSources, 1, {.divisor = kSources});
    EXPECT_EQ(result, UINT32_MAX - 1);
  });
}

TEST(ReduceSemantics, IntegerAveragesBeyondWhatADoubleSumsExactly) {
  constexpr uint32_t kSources = (uint32_t{1} << 21) + 5;
  const int32_t value = INT32_MIN;
  const std::vector<const void*> sources(kSources, &value);
  int32_t result = 0;
  find_fold(DataType::int32, Kind::average)(&result, sources.data(), kSources, 1, {.divisor = kSources});
  EXPECT_EQ(result, INT32_MIN);
}

TEST(ReduceSemantics, BooleansAreZeroOrOne) {
  for_each_target([](const char*) {
    EXPECT_EQ(fold_values<uint8_t>(DataType::boolean, Kind::sum, {0x80, 0}), 1);
    EXPECT_EQ(fold_values<uint8_t>(DataType::boolean, Kind::product, {0x80, 0x01}), 1);  // no common bit
    EXPECT_EQ(fold_values<uint8_t>(DataType::boolean, Kind::bit_and, {2, 0}), 0);
    EXPECT_EQ(fold_values<uint8_t>(DataType::boolean, Kind::bit_xor, {2, 4}), 0);
    EXPECT_EQ(fold_values<uint8_t>(DataType::boolean, Kind::bit_xor, {2, 4, 8}), 1);
    EXPECT_EQ(fold_values<uint8_t>(DataType::boolean, Kind::maximum, {7}), 1);
  });
}

TEST(ReduceSemantics, NegativeZeroIsLess) {
  for_each_target([](const char*) {
    for (const std::vector<float>& zeros : {std::vector<float>{-0.0f, 0.0f}, std::vector<float>{0.0f, -0.0f}}) {
      EXPECT_TRUE(std::signbit(fold_values<float>(DataType::float32, Kind::minimum, zeros)));
      EXPECT_FALSE(std::signbit(fold_values<float>(DataType::float32, Kind::maximum, zeros)));
    }
    EXPECT_TRUE(std::signbit(fold_values<double>(DataType::float64, Kind::sum, {-0.0, -0.0})));
  });
}

TEST(ReduceSemantics, NanIsCanonical) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float odd = std::bit_cast<float>(0xffc12345u);
  for_each_target([&](const char*) {
    const auto bits = [](Kind op, const std::vector<float>& values) {
      return std::bit_cast<uint32_t>(fold_values<float>(DataType::float32, op, values));
    };
    for (const Kind op : {Kind::sum, Kind::product, Kind::minimum, Kind::maximum, Kind::premultiplied_sum}) {
      EXPECT_EQ(bits(op, {1.0f, odd, 2.0f}), 0x7fc00000u) << name(op);
      EXPECT_EQ(bits(op, {odd}), 0x7fc00000u) << name(op);
    }
    EXPECT_EQ(bits(Kind::sum, {infinity, -infinity}), 0x7fc00000u);
    EXPECT_EQ(bits(Kind::product, {infinity, 0.0f}), 0x7fc00000u);
    EXPECT_EQ(bits(Kind::minimum, {infinity, -infinity}), 0xff800000u);
  });
}

TEST(ReduceSemantics, SumsRunFromLeftToRight) {
  for_each_target([](const char*) {
    EXPECT_EQ(fold_values<float>(DataType::float32, Kind::sum, {1e8f, 1.0f, -1e8f}), 0.0f);
    EXPECT_EQ(fold_values<float>(DataType::float32, Kind::sum, {1e8f, -1e8f, 1.0f}), 1.0f);
    EXPECT_EQ(fold_values<float>(DataType::float32, Kind::sum, {1.0f, 2.0f, 3.0f, 4.0f, 1e8f, -1e8f}), 8.0f);
  });
}

// x·f + y·f with a fused multiplication would keep what rounding x·f lost.
TEST(ReduceSemantics, ProductsAreRoundedBeforeTheyAreAdded) {
  const float x = 1.0f + 0x1p-23f;
  const float f = 1.0f + 0x1p-22f;
  const volatile float product = x * f;
  for_each_target([&](const char*) {
    EXPECT_EQ(fold_values<float>(DataType::float32, Kind::premultiplied_sum, {x, -x}, {.factor = f}), 0.0f);
    EXPECT_EQ(fold_values<float>(DataType::float32, Kind::premultiplied_sum, {x}, {.factor = f}), product);
  });
}

TEST(ReduceSemantics, ComplexProduct) {
  struct Complex {
    float real, imaginary;
  };
  const Complex result =
      fold_values<Complex>(DataType::complex64, Kind::product, {Complex{1, 2}, Complex{3, -4}, Complex{0, 1}});
  EXPECT_EQ(result.real, -2.0f);
  EXPECT_EQ(result.imaginary, 11.0f);
}

}  // namespace
}  // namespace regroup::reduction
