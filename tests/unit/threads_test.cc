// SPDX-License-Identifier: Apache-2.0
// Groups whose ranks have several threads: the same values, bit for bit, as with one; and who decides how many.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>

#include "backend/native/contact.h"
#include "base/hash.h"
#include "regroup/regroup.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;
constexpr uint64_t kMany = (1 << 18) + 77;  // elements of 4 bytes
#else
constexpr bool kForks = true;
constexpr uint64_t kMany = (1 << 20) + 77;
#endif
constexpr Rank kRanks = 3;

// A buffer in either kind of memory.
class Memory {
 public:
  Memory(bool mapped, uint64_t bytes) {
    if (mapped) {
      mapped_ = allocate(std::max<uint64_t>(bytes, 1)).value_or_throw();
      data_ = mapped_->data();
    } else {
      ordinary_.resize(bytes + 64);
      data_ = ordinary_.data();
    }
  }
  std::byte* data() { return data_; }

 private:
  std::optional<Allocation> mapped_;
  std::vector<std::byte> ordinary_;
  std::byte* data_;
};

uint64_t hash(uint64_t seed, const std::byte* data, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, data + done, std::min(bytes - done, sizeof word));
    seed = base::mix(seed, word);
  }
  return seed;
}

// Sums of these differ by the order in which they are added, if anything does.
void fill(std::byte* data, DataType type, uint64_t count, Rank rank) {
  for (uint64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>((i * 2654435761u + rank * 40503u) % 10007) / 7.0f - 500.0f;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (type == DataType::bfloat16) {
      const uint16_t half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(data + 2 * i, &half, sizeof half);
    } else {
      std::memcpy(data + 4 * i, &bits, sizeof bits);
    }
  }
}

// The outputs of large operations of every kind, as one number.
uint64_t digest(ProcessGroup& group, bool mapped) {
  const Rank rank = group.rank(), size = group.size();
  uint64_t all = 1;
  const auto take = [&](const Operation& operation, const std::byte* output, uint64_t bytes) {
    check(group.run(operation));
    all = hash(all, output, bytes);
  };
  for (const DataType type : {DataType::float32, DataType::bfloat16}) {
    const uint64_t width = size_of(type), vector = kMany, part = kMany / 2 + 1;
    Memory in(mapped, size * part * width), out(mapped, size * part * width);
    const auto buffer = [&](Memory& memory, uint64_t count, uint64_t from = 0) {
      return Buffer{memory.data() + from * width, type, count};
    };
    const auto list = [&](Memory& memory) {
      std::vector<Buffer> parts;
      for (Rank peer = 0; peer < size; ++peer) parts.push_back(buffer(memory, part, peer * part));
      return parts;
    };
    const auto fresh = [&] { fill(in.data(), type, size * part, rank); };
    fresh();
    for (const ReduceOp op : {ReduceOp(ReduceOp::sum), ReduceOp(ReduceOp::average), ReduceOp(ReduceOp::maximum)}) {
      take(all_reduce(from(buffer(in, vector)), into(buffer(out, vector)), op), out.data(), vector * width);
    }
    take(reduce_scatter(from(buffer(in, size * part)), into(buffer(out, part))), out.data(), part * width);
    take(reduce_scatter(from(list(in)), into(buffer(out, part))), out.data(), part * width);
    take(all_gather(from(buffer(in, part)), into(buffer(out, size * part))), out.data(), size * part * width);
    take(all_gather(from(buffer(in, part)), into(list(out))), out.data(), size * part * width);
    take(all_to_all(from(buffer(in, size * part)), into(buffer(out, size * part))), out.data(), size * part * width);
    take(all_to_all(from(list(in)), into(list(out))), out.data(), size * part * width);
    take(broadcast(from(buffer(in, vector)), into(buffer(out, vector)), 1), out.data(), vector * width);
    check(group.run(rank == 2 ? reduce(from(buffer(in, vector)), into(buffer(out, vector)), ReduceOp::sum, 2)
                              : reduce(from(buffer(in, vector)), ReduceOp::sum, 2)));
    all = hash(all, out.data(), rank == 2 ? vector * width : 0);
    // In place.
    take(all_reduce(in_place(buffer(in, vector))), in.data(), vector * width);
    fresh();
    take(all_to_all(in_place(buffer(in, size * part))), in.data(), size * part * width);
    fresh();
    take(all_to_all(in_place(list(in))), in.data(), size * part * width);
    fresh();
    take(all_gather(in_place(buffer(in, size * part))), in.data(), size * part * width);
    take(broadcast(in_place(buffer(in, vector)), 0), in.data(), vector * width);
    fresh();
    check(group.run(reduce_scatter(in_place(buffer(in, size * part)))));
    all = hash(all, in.data() + rank * part * width, part * width);
    fresh();
    Memory other(mapped, part * width);
    fill(other.data(), type, part, rank);
    take(batch({all_reduce(from(buffer(in, vector)), into(buffer(out, vector))),
                broadcast(in_place(buffer(other, part)), 2)}),
         out.data(), vector * width);
    all = hash(all, other.data(), part * width);
  }
  return all;
}

JoinOptions with_threads(uint32_t threads) {
  JoinOptions options;
  options.timeout = 60s;
  options.threads = threads;
  return options;
}

TEST(Threads, GiveTheSameBitsInThreadsOfOneProcess) {
  for (const bool mapped : {false, true}) {
    std::vector<std::vector<uint64_t>> digests;
    for (const uint32_t threads : {1, 3}) {
      digests.emplace_back(kRanks);
      const Status status = run_local(
          kRanks, [&](ProcessGroup& group) { digests.back()[group.rank()] = digest(group, mapped); },
          with_threads(threads));
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    EXPECT_EQ(digests[0], digests[1]) << (mapped ? "mapped" : "ordinary");
  }
}

TEST(Threads, GiveTheSameBitsInForkedProcesses) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const bool mapped : {false, true}) {
    std::vector<std::vector<uint64_t>> digests;
    for (const uint32_t threads : {1, 3}) {
      digests.emplace_back(kRanks);
      int pipes[2];
      ASSERT_EQ(pipe(pipes), 0);
      const Status status = run_forked(
          kRanks,
          [&](ProcessGroup& group) {
            const uint64_t told[2] = {group.rank(), digest(group, mapped)};
            return write(pipes[1], told, sizeof told) == sizeof told ? 0 : 1;
          },
          with_threads(threads));
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (Rank rank = 0; rank < kRanks; ++rank) {
        uint64_t told[2] = {};
        ASSERT_EQ(read(pipes[0], told, sizeof told), static_cast<ssize_t>(sizeof told));
        digests.back()[told[0]] = told[1];
      }
      close(pipes[0]);
      close(pipes[1]);
    }
    EXPECT_EQ(digests[0], digests[1]) << (mapped ? "mapped" : "ordinary");
  }
}

TEST(Threads, GiveTheSameBitsOverTcpAndBetweenHosts) {
  for (const bool mixed : {false, true}) {
    std::vector<std::vector<uint64_t>> digests;
    for (const uint32_t threads : {1, 3}) {
      digests.emplace_back(kRanks);
      const auto store = make_hash_store();
      std::vector<std::thread> ranks;
      for (Rank rank = 0; rank < kRanks; ++rank) {
        ranks.emplace_back([&, rank] {
          JoinOptions options = with_threads(threads);
          options.store = store;
          options.rank = rank;
          options.size = kRanks;
          if (mixed) options.host_label = rank < 2 ? "a" : "b";
          if (!mixed) options.transport = "tcp";
          Result<ProcessGroup> group = join(options);
          if (group.ok()) digests.back()[rank] = digest(*group, false);
        });
      }
      for (std::thread& thread : ranks) thread.join();
      EXPECT_NE(digests.back()[0], 0u);
    }
    EXPECT_EQ(digests[0], digests[1]) << (mixed ? "mixed" : "tcp");
  }
}

// One group of two ranks that ask for `first` and `second` threads; what rank 0 is told.
std::string description_with(uint32_t first, uint32_t second) {
  const auto store = make_hash_store();
  std::string description;
  std::thread other([&] {
    JoinOptions options = with_threads(second);
    options.store = store;
    options.rank = 1;
    options.size = 2;
    EXPECT_TRUE(join(options).ok());
  });
  JoinOptions options = with_threads(first);
  options.store = store;
  options.rank = 0;
  options.size = 2;
  if (Result<ProcessGroup> group = join(options); group.ok()) description = group->description();
  other.join();
  return description;
}

TEST(Threads, AreTheLeastThatAnyRankHas) {
  EXPECT_EQ(description_with(4, 2), "native over shm, 2 threads a rank");
  EXPECT_EQ(description_with(1, 16), "native over shm");
}

TEST(Threads, OfASubgroupAreThoseOfTheGroup) {
  const Status status = run_local(
      4,
      [](ProcessGroup& group) {
        Result<ProcessGroup> half = group.split(group.rank() % 2);
        check(half.status());
        if (half->description() != "native over shm, 2 threads a rank")
          throw Error(Status(StatusCode::internal, half->description()));
      },
      with_threads(2));
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(Threads, AreRefusedBeyondTheirBounds) {
  for (const uint32_t threads : {0u, 17u}) {
    const Status status = run_local(
        1, [](ProcessGroup&) {}, with_threads(threads));
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.to_string();
    EXPECT_NE(status.message().find("from 1 to 16"), std::string::npos) << status.message();
  }
}

TEST(Threads, AreTakenFromTheEnvironment) {
  const auto described = [](const char* value, JoinOptions options) {
    setenv("REGROUP_THREADS", value, 1);
    std::string description;
    const Status status = run_local(
        1, [&](ProcessGroup& group) { description = group.description(); }, options);
    unsetenv("REGROUP_THREADS");
    return status.ok() ? description : status.message();
  };
  EXPECT_EQ(described("5", {}), "native over shm, 5 threads a rank");
  EXPECT_EQ(described("5", with_threads(2)), "native over shm, 2 threads a rank");
  EXPECT_EQ(described("1", {}), "native over shm");
  for (const char* wrong : {"0", "17", "two", "3x", "-1"}) {
    EXPECT_EQ(described(wrong, {}),
              std::string("REGROUP_THREADS is \"") + wrong + "\"; it takes a number from 1 to 16");
  }
}

TEST(Threads, AreARanksShareOfTheCores) {
  using backend::native::threads_for;
  EXPECT_EQ(threads_for(8, 8, 1, 16), 8u);
  EXPECT_EQ(threads_for(8, 8, 2, 16), 4u);
  EXPECT_EQ(threads_for(8, 8, 3, 16), 2u);
  EXPECT_EQ(threads_for(8, 8, 8, 16), 1u);
  EXPECT_EQ(threads_for(2, 2, 4, 16), 1u);  // ranks share cores
  EXPECT_EQ(threads_for(1, 8, 2, 16), 1u);  // pinned to one
  EXPECT_EQ(threads_for(4, 8, 1, 16), 4u);
  EXPECT_EQ(threads_for(128, 128, 2, 16), 16u);
  EXPECT_EQ(threads_for(0, 0, 0, 16), 1u);
}

TEST(Threads, TravelInVerdicts) {
  using backend::native::Verdict;
  Verdict verdict;
  ASSERT_TRUE(Verdict::parse(Verdict{true, 7}.to_text(), &verdict));
  EXPECT_TRUE(verdict.reads);
  EXPECT_EQ(verdict.threads, 7u);
  ASSERT_TRUE(Verdict::parse(Verdict{false, 1}.to_text(), &verdict));
  EXPECT_FALSE(verdict.reads);
  EXPECT_EQ(verdict.threads, 1u);
  for (const char* wrong : {"", "reads", "writes 2", "reads x", "reads 0"}) {
    EXPECT_FALSE(Verdict::parse(wrong, &verdict)) << wrong;
  }
}

}  // namespace
}  // namespace regroup
