// SPDX-License-Identifier: Apache-2.0
// Every element type under every operator, against the reference, bit for bit, under every instruction set.
#include <gtest/gtest.h>

#include <string>

#include "reduce/reduce.h"
#include "unit/reduce_reference.h"
#include "unit/reduce_targets.h"

namespace regroup::reduction {
namespace {

using reference::Bytes;
using reference::Kind;

constexpr uint64_t kCounts[] = {0, 1, 2, 7, 8, 9, 31, 63, 64, 65, 1000};
constexpr uint64_t kMostElements = 1000;
constexpr uint32_t kSourceCounts[] = {1, 2, 3, 4, 5, 9};
constexpr uint32_t kMostSources = 9;
constexpr uint64_t kGuard = 64;

// The signs, zeros, extremes and specials of T among numbers of moderate size and plain random bits.
template <class T>
T interesting_number(std::mt19937_64& random) {
  const uint64_t dice = random();
  if (dice % 4 == 0) {
    const T specials[] = {std::numeric_limits<T>::quiet_NaN(),
                          std::numeric_limits<T>::infinity(),
                          -std::numeric_limits<T>::infinity(),
                          T{0},
                          -T{0},
                          std::numeric_limits<T>::denorm_min(),
                          -std::numeric_limits<T>::max(),
                          -std::numeric_limits<T>::quiet_NaN()};
    return specials[dice / 4 % 8];
  }
  return static_cast<T>(static_cast<int64_t>(random() % 2000001) - 1000000) / 1024;
}

void fill(DataType type, std::mt19937_64& random, unsigned char* to, uint64_t count) {
  const uint64_t bytes = count * size_of(type);
  for (uint64_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(random() % 3 == 0 ? 0 : random());
  const auto number = [&]<class T>(T) {
    for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
      if (random() % 4 == 0) continue;  // random bits
      const T value = interesting_number<T>(random);
      std::memcpy(to + i, &value, sizeof(T));
    }
  };
  if (type == DataType::float32 || type == DataType::complex64) number(float{});
  if (type == DataType::float64 || type == DataType::complex128) number(double{});
}

// The sources of one case, each at an address aligned for its element and for nothing more.
class Sources {
 public:
  Sources(DataType type, uint32_t count, uint64_t seed) : size_(size_of(type)) {
    std::mt19937_64 random(seed);
    for (uint32_t s = 0; s < count; ++s) {
      buffers_[s].resize(kGuard + (kMostElements + 1) * size_ + kGuard);
      fill(type, random, buffers_[s].data() + begin(s), kMostElements);
      pointers_.push_back(buffers_[s].data() + begin(s));
    }
  }
  const std::vector<const void*>& pointers() const { return pointers_; }
  void* writable(uint32_t s) { return buffers_[s].data() + begin(s); }

 private:
  uint64_t begin(uint32_t s) const { return kGuard + (s % 2 == 0 ? size_ : 0); }

  uint64_t size_;
  Bytes buffers_[kMostSources];
  std::vector<const void*> pointers_;
};

bool guards_untouched(const Bytes& buffer, uint64_t offset, uint64_t bytes) {
  for (uint64_t i = 0; i < offset; ++i) {
    if (buffer[i] != 0xa5) return false;
  }
  for (uint64_t i = offset + bytes; i < buffer.size(); ++i) {
    if (buffer[i] != 0xa5) return false;
  }
  return true;
}

void check_apart(Fold fold, uint64_t size, const Sources& sources, const Bytes& expected, const FoldOptions& options) {
  const auto source_count = static_cast<uint32_t>(sources.pointers().size());
  for (const uint64_t count : kCounts) {
    for (const uint64_t offset : {kGuard, kGuard + size}) {
      const uint64_t bytes = count * size;
      Bytes buffer(offset + bytes + kGuard, 0xa5);
      fold(buffer.data() + offset, sources.pointers().data(), source_count, count, options);
      EXPECT_EQ(std::memcmp(buffer.data() + offset, expected.data(), bytes), 0) << count << " elements";
      EXPECT_TRUE(guards_untouched(buffer, offset, bytes)) << count << " elements";
    }
  }
}

void check_in_place(Fold fold, uint64_t size, Sources& sources, const Bytes& expected, const FoldOptions& options) {
  const auto source_count = static_cast<uint32_t>(sources.pointers().size());
  for (uint32_t s = 0; s < source_count; ++s) {
    Bytes original(kMostElements * size);
    std::memcpy(original.data(), sources.writable(s), original.size());
    for (const uint64_t count : kCounts) {
      fold(sources.writable(s), sources.pointers().data(), source_count, count, options);
      EXPECT_EQ(std::memcmp(sources.writable(s), expected.data(), count * size), 0)
          << count << " elements in place of source " << s;
      std::memcpy(sources.writable(s), original.data(), original.size());
    }
  }
}

class EveryPair : public testing::TestWithParam<DataType> {};

TEST_P(EveryPair, MatchesTheReference) {
  const DataType type = GetParam();
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<Kind>(o);
    if (!supported(type, op)) continue;
    for (const uint32_t source_count : kSourceCounts) {
      Sources sources(type, source_count, 1000 * static_cast<uint64_t>(o) + source_count);
      for (const uint32_t divisor : {source_count, 0u}) {
        if (divisor == 0 && op != Kind::average) continue;
        const FoldOptions options{.factor = 0.3, .divisor = divisor};
        const Bytes expected = reference::fold(type, op, sources.pointers(), kMostElements, options);
        for_each_target([&](const char* target) {
          SCOPED_TRACE(std::string(name(op)) + " of " + std::to_string(source_count) + " sources, " + target);
          const Fold fold = find_fold(type, op);
          check_apart(fold, size_of(type), sources, expected, options);
          check_in_place(fold, size_of(type), sources, expected, options);
        });
      }
    }
  }
}

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int t = 0; t < kDataTypes; ++t) types.push_back(static_cast<DataType>(t));
  return types;
}

INSTANTIATE_TEST_SUITE_P(Reduce, EveryPair, testing::ValuesIn(all_types()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace regroup::reduction
