// SPDX-License-Identifier: Apache-2.0
#include "reduce/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "unit/reduce_targets.h"

namespace regroup::reduction {
namespace {

TEST(ReduceCopy, CopiesAnyLengthAtAnyAddress) {
  std::vector<unsigned char> source(70000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 31 + i / 251);
  for_each_target([&](const char* target) {
    for (const uint64_t bytes : {0, 1, 63, 64, 4095, 4096, 4097, 4223, 4352, 65536, 69000}) {
      for (const uint64_t from : {0, 1, 17}) {
        for (const uint64_t to : {0, 1, 16, 63, 64}) {
          std::vector<unsigned char> destination(70000, 0xa5);
          copy_streaming(destination.data() + to, source.data() + from, bytes);
          ASSERT_EQ(std::memcmp(destination.data() + to, source.data() + from, bytes), 0) << bytes << " " << target;
          for (uint64_t i = 0; i < to; ++i) ASSERT_EQ(destination[i], 0xa5) << bytes << " " << target;
          for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(destination[to + bytes + i], 0xa5) << bytes << " " << target;
        }
      }
    }
  });
}

TEST(ReduceCopy, ThresholdIsPlausible) {
  EXPECT_GE(streaming_threshold(), uint64_t{1} << 20);
  EXPECT_EQ(streaming_threshold(), streaming_threshold());
}

}  // namespace
}  // namespace regroup::reduction
