// SPDX-License-Identifier: Apache-2.0
// Kind: what has more than 2³¹ bytes or elements (ompi 9616, mpich 2317, gloo 380, llama.cpp 15188), over each way that
// bytes can take between two processes. Slow, and of up to 14 GiB of memory: run apart, one test at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "regroup/regroup.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kPast = (uint64_t{1} << 31) + 17;

struct Way {
  const char* name;
  const char* transport;
  bool mapped;
};

class Large : public testing::TestWithParam<Way> {
 protected:
  // Skips where the machine has not the memory.
  static bool enough(uint64_t bytes) {
    std::ifstream file("/proc/meminfo");
    std::string word;
    uint64_t kib = 0;
    while (file >> word) {
      if (word == "MemAvailable:") file >> kib;
    }
    return kib * 1024 > bytes + 2 * kGiB;
  }

  // Two processes run `body`, which returns what is wrong, or nothing.
  void run(uint64_t bytes, const std::function<std::string(ProcessGroup&)>& body) {
    if (!enough(bytes)) GTEST_SKIP() << "needs " << (bytes + 2 * kGiB) / kGiB << " GiB of memory";
    const Status status = run_forked(2,
                                     [&](ProcessGroup& group) {
                                       const std::string wrong = body(group);
                                       if (!wrong.empty())
                                         std::fprintf(stderr, "rank %u: %s\n", group.rank(), wrong.c_str());
                                       return wrong.empty() ? 0 : 1;
                                     },
                                     {.timeout = 5min, .transport = GetParam().transport});
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
};

// Memory of one rank, ordinary or mapped by the others.
class Memory {
 public:
  Memory(uint64_t bytes) {
    if (Large::GetParam().mapped) {
      allocation_ = allocate(bytes).value();
      data_ = allocation_.data();
    } else {
      ordinary_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      data_ = ordinary_.get();
    }
  }
  template <typename T = uint8_t>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Allocation allocation_;
  std::unique_ptr<std::byte[]> ordinary_;
  std::byte* data_;
};

// Eight bytes that tell where they are, and whose.
uint64_t word_at(uint64_t index, Rank rank) { return (index + 1) * 0x9e3779b97f4a7c15u + rank * 0x2545f4914f6cdd1du; }

uint8_t byte_at(uint64_t index, Rank rank) {
  const uint64_t word = word_at(index / 8, rank);
  uint8_t bytes[8];
  std::memcpy(bytes, &word, 8);
  return bytes[index % 8];
}

void fill(uint8_t* to, uint64_t bytes, Rank rank) {
  for (uint64_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = word_at(i, rank);
    std::memcpy(to + 8 * i, &word, 8);
  }
  for (uint64_t i = bytes / 8 * 8; i < bytes; ++i) to[i] = byte_at(i, rank);
}

// What differs from what `fill` wrote.
std::string differs(const uint8_t* data, uint64_t bytes, Rank rank) {
  for (uint64_t i = 0; i < bytes / 8; ++i) {
    uint64_t word;
    std::memcpy(&word, data + 8 * i, 8);
    if (word != word_at(i, rank)) return "rank " + std::to_string(rank) + "'s byte near " + std::to_string(8 * i);
  }
  for (uint64_t i = bytes / 8 * 8; i < bytes; ++i) {
    if (data[i] != byte_at(i, rank)) return "rank " + std::to_string(rank) + "'s byte " + std::to_string(i);
  }
  return "";
}

// Calls `look` for indices below `count`: some everywhere, all of them around the powers of two and the ends.
template <typename Look>
std::string at_boundaries(uint64_t count, const Look& look) {
  const auto range = [&](uint64_t first, uint64_t last, uint64_t stride) -> std::string {
    for (uint64_t i = first; i < std::min(last, count); i += stride) {
      if (!look(i)) return "element " + std::to_string(i);
    }
    return "";
  };
  std::string wrong = range(0, count, 4093);
  for (int bit = 12; bit <= 32 && wrong.empty(); ++bit) {
    const uint64_t middle = uint64_t{1} << bit;
    wrong = range(middle - 4096, middle + 4096, 1);
  }
  return wrong.empty() ? range(count - 4096, count, 1) : wrong;
}

TEST_P(Large, AllReducesBytes) {
  run(4 * kPast, [](ProcessGroup& group) -> std::string {
    const Memory memory(kPast);
    uint8_t* data = memory.as();
    fill(data, kPast, group.rank());
    if (Status s = group.run(all_reduce(in_place(data, kPast))); !s.ok()) return s.to_string();
    return at_boundaries(kPast,
                         [&](uint64_t i) { return data[i] == static_cast<uint8_t>(byte_at(i, 0) + byte_at(i, 1)); });
  });
}

TEST_P(Large, AllGathersBytes) {
  run(6 * kPast, [](ProcessGroup& group) -> std::string {
    const Memory mine(kPast), all(2 * kPast);
    fill(mine.as(), kPast, group.rank());
    if (Status s = group.run(all_gather(from(mine.as(), kPast), into(all.as(), 2 * kPast))); !s.ok())
      return s.to_string();
    const std::string wrong = differs(all.as(), kPast, 0);
    return wrong.empty() ? differs(all.as() + kPast, kPast, 1) : wrong;
  });
}

TEST_P(Large, BroadcastsBytes) {
  run(2 * kPast, [](ProcessGroup& group) -> std::string {
    const Memory memory(kPast);
    if (group.rank() == 1) fill(memory.as(), kPast, 1);
    if (Status s = group.run(broadcast(in_place(memory.as(), kPast), 1)); !s.ok()) return s.to_string();
    return differs(memory.as(), kPast, 1);
  });
}

// Fewer elements than 2³¹, more bytes.
TEST_P(Large, AllReducesFloats) {
  constexpr uint64_t kCount = kPast / sizeof(float) + 1;
  static_assert(kCount < uint64_t{1} << 31 && kCount * sizeof(float) > uint64_t{1} << 31);
  run(4 * kPast, [](ProcessGroup& group) -> std::string {
    const Memory memory(kCount * sizeof(float));
    float* data = memory.as<float>();
    const auto given = [](uint64_t i, Rank rank) { return static_cast<float>(i % 1000003 * 4 + rank); };
    for (uint64_t i = 0; i < kCount; ++i) data[i] = given(i, group.rank());
    if (Status s = group.run(all_reduce(in_place(data, kCount))); !s.ok()) return s.to_string();
    return at_boundaries(kCount, [&](uint64_t i) { return data[i] == given(i, 0) + given(i, 1); });
  });
}

TEST_P(Large, SendsBytes) {
  for (const uint64_t bytes : {(uint64_t{1} << 31) - 1, uint64_t{1} << 31, (uint64_t{1} << 32) + 1}) {
    SCOPED_TRACE(bytes);
    run(2 * bytes, [bytes](ProcessGroup& group) -> std::string {
      const Memory memory(bytes);
      if (group.rank() == 0) fill(memory.as(), bytes, 0);
      if (Status s =
              group.run(group.rank() == 0 ? send(from(memory.as(), bytes), 1) : receive(into(memory.as(), bytes), 0));
          !s.ok()) {
        return s.to_string();
      }
      const std::string wrong = group.rank() == 1 ? differs(memory.as(), bytes, 0) : "";
      // The sender's memory has to stay until it is read; and they are still in step.
      if (Status s = group.run(barrier()); !s.ok()) return s.to_string();
      return wrong;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Large,
                         testing::Values(Way{"shm", "shm", false}, Way{"shm_mapped", "shm", true},
                                         Way{"tcp", "tcp", false}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace regroup
