// SPDX-License-Identifier: Apache-2.0
// Every value of the 16-bit and 8-bit floating-point formats, and every place where rounding changes its mind.
#include <gtest/gtest.h>

#include <string>

#include "reduce/reduce.h"
#include "unit/reduce_reference.h"
#include "unit/reduce_targets.h"

namespace regroup::reduction {
namespace {

using reference::Bytes;
using reference::Format;
using reference::Kind;

constexpr Kind kArithmetic[] = {Kind::sum,     Kind::average, Kind::product,
                                Kind::minimum, Kind::maximum, Kind::premultiplied_sum};

// All values of T against each partner.
template <class T>
void check_every_value(DataType type, const std::vector<uint32_t>& partners) {
  constexpr uint64_t kValues = uint64_t{1} << (8 * sizeof(T));
  std::vector<T> every(kValues);
  for (uint64_t i = 0; i < kValues; ++i) every[i] = static_cast<T>(i);
  const FoldOptions options{.factor = 0.7, .divisor = 3};
  for (const uint32_t partner : partners) {
    const std::vector<T> other(kValues, static_cast<T>(partner));
    const void* sources[] = {every.data(), other.data()};
    for (const Kind op : kArithmetic) {
      const Bytes expected = reference::fold(type, op, sources, kValues, options);
      for_each_target([&](const char* target) {
        std::vector<T> result(kValues);
        find_fold(type, op)(result.data(), sources, 2, kValues, options);
        EXPECT_EQ(std::memcmp(result.data(), expected.data(), expected.size()), 0)
            << name(type) << " " << name(op) << " with " << partner << ", " << target;
      });
    }
  }
}

TEST(ReduceSmallFloat, EveryFloat16) {
  check_every_value<uint16_t>(DataType::float16, {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x1001, 0x3c00, 0xbc01,
                                                  0x3555, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0xfd01});
}

TEST(ReduceSmallFloat, EveryBfloat16) {
  check_every_value<uint16_t>(DataType::bfloat16, {0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x3b81, 0x3f80, 0xbf81,
                                                   0x3eab, 0x7f7f, 0x7f80, 0xff80, 0x7fc0, 0xffa1});
}

TEST(ReduceSmallFloat, EveryPairOfFloat8) {
  std::vector<uint32_t> all(256);
  for (uint32_t i = 0; i < 256; ++i) all[i] = i;
  check_every_value<uint8_t>(DataType::float8_e4m3fn, all);
  check_every_value<uint8_t>(DataType::float8_e5m2, all);
}

// A premultiplied sum of a single 1 is its factor, rounded.
template <class T>
void check_rounding(DataType type, const Format& format) {
  const T one = static_cast<T>(reference::encode(format, 1.0));
  const void* sources[] = {&one};
  std::vector<float> factors;
  for (uint32_t bits = 0; bits <= format.largest(); ++bits) {
    const auto below = static_cast<float>(reference::decode(format, bits));
    const double next = bits < format.largest() ? reference::decode(format, bits + 1)
                                                : 2.0 * below - reference::decode(format, bits - 1);
    const auto middle = static_cast<float>((below + next) / 2);
    for (const float value : {below, middle}) {
      for (const float sign : {1.0f, -1.0f}) {
        factors.push_back(sign * value);
        factors.push_back(sign * std::nextafter(value, 0.0f));
        factors.push_back(sign * std::nextafter(value, std::numeric_limits<float>::infinity()));
      }
    }
  }
  for (const float value : {1e5f, 3e38f, std::numeric_limits<float>::infinity(), 1e-40f, 1e-7f}) {
    factors.push_back(value);
    factors.push_back(-value);
  }
  for_each_target([&](const char* target) {
    const Fold fold = find_fold(type, Kind::premultiplied_sum);
    uint64_t wrong = 0;
    for (const float factor : factors) {
      T result;
      fold(&result, sources, 1, 1, FoldOptions{.factor = factor});
      wrong += result != reference::encode(format, factor);
    }
    EXPECT_EQ(wrong, 0u) << name(type) << ", " << target;
  });
}

TEST(ReduceSmallFloat, RoundsToNearestEvenOnce) {
  check_rounding<uint16_t>(DataType::float16, reference::kFloat16);
  check_rounding<uint16_t>(DataType::bfloat16, reference::kBfloat16);
  check_rounding<uint8_t>(DataType::float8_e4m3fn, reference::kFloat8E4m3fn);
  check_rounding<uint8_t>(DataType::float8_e5m2, reference::kFloat8E5m2);
}

TEST(ReduceSmallFloat, AccumulatesInFloat32) {
  // 2048 + 1 + 1 in float16 itself would stay at 2048 twice.
  const uint16_t values[] = {0x6800, 0x3c00, 0x3c00};
  const void* sources[] = {&values[0], &values[1], &values[2]};
  uint16_t result = 0;
  find_fold(DataType::float16, Kind::sum)(&result, sources, 3, 1, {});
  EXPECT_EQ(result, 0x6801);
}

TEST(ReduceSmallFloat, WhatFloat8CannotHold) {
  const auto sum = [](DataType type, uint8_t a, uint8_t b) {
    const void* sources[] = {&a, &b};
    uint8_t result = 0;
    find_fold(type, Kind::sum)(&result, sources, 2, 1, {});
    return result;
  };
  EXPECT_EQ(sum(DataType::float8_e4m3fn, 0x7e, 0x58), 0x7e);  // 448 + 16 = 464: a tie, back to 448
  EXPECT_EQ(sum(DataType::float8_e4m3fn, 0x7e, 0x59), 0x7f);  // 448 + 18: NaN
  EXPECT_EQ(sum(DataType::float8_e4m3fn, 0xfe, 0xfe), 0xff);
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7b, 0x7b), 0x7c);  // infinity
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7c, 0xfc), 0x7e);  // ∞ − ∞
}

}  // namespace
}  // namespace regroup::reduction
