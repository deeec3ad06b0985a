// SPDX-License-Identifier: Apache-2.0
// Groups as a user sees them: ranks as threads, over each transport.
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "regroup/regroup.h"
#include "unit/wires.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif

Status expect(bool holds, const std::string& what) { return holds ? Status() : Status(StatusCode::internal, what); }

TEST(Group, AllReducesOfEverySize) {
  on_every_wire(4, [](ProcessGroup& group) {
    for (const uint64_t count : {0, 1, 5, 1000, 3000, 100000}) {
      std::vector<int64_t> in(count), out(count);
      for (uint64_t i = 0; i < count; ++i) in[i] = static_cast<int64_t>(i * 10 + group.rank());
      if (Status status = group.run(all_reduce(from(in), into(out))); !status.ok()) return status;
      for (uint64_t i = 0; i < count; ++i) {
        if (out[i] != static_cast<int64_t>(i * 40 + 6))
          return expect(false, "wrong sum at " + std::to_string(i) + " of " + std::to_string(count));
      }
      if (Status status = group.run(all_reduce(in_place(in))); !status.ok()) return status;
      if (in != out) return expect(false, "in place differs");
    }
    return Status();
  });
}

TEST(Group, ExchangesListsOfAnySizes) {
  on_every_wire(3, [](ProcessGroup& group) {
    for (const uint64_t scale : {0, 1, 7, 5000}) {
      std::vector<std::vector<int32_t>> in(3), out(3);
      for (Rank peer = 0; peer < 3; ++peer) {
        in[peer].resize(scale * ((group.rank() + 2 * peer) % 4));
        std::iota(in[peer].begin(), in[peer].end(), static_cast<int32_t>(100 * group.rank() + 10 * peer));
        out[peer].resize(scale * ((peer + 2 * group.rank()) % 4));
      }
      if (Status status = group.run(all_to_all(from(in), into(out))); !status.ok()) return status;
      for (Rank peer = 0; peer < 3; ++peer) {
        for (size_t i = 0; i < out[peer].size(); ++i) {
          if (out[peer][i] != static_cast<int32_t>(100 * peer + 10 * group.rank() + i))
            return expect(false, "wrong element");
        }
      }
    }
    return Status();
  });
}

TEST(Group, RunsEveryOtherCollective) {
  on_every_wire(5, [](ProcessGroup& group) {
    const Rank rank = group.rank(), size = group.size();
    for (const uint64_t count : {1, 4000}) {
      std::vector<float> part(count), all(count * size), back(count);
      for (uint64_t i = 0; i < count; ++i) part[i] = static_cast<float>(rank * 1000 + i % 100);
      if (Status s = group.run(barrier()); !s.ok()) return s;
      if (Status s = group.run(all_gather(from(part), into(all))); !s.ok()) return s;
      for (Rank r = 0; r < size; ++r) {
        if (all[r * count] != static_cast<float>(r * 1000)) return expect(false, "all_gather");
      }
      std::vector<float> gathered(rank == 2 ? count * size : 0);
      if (Status s = group.run(rank == 2 ? gather(from(part), into(gathered), 2) : gather(from(part), 2)); !s.ok())
        return s;
      if (rank == 2 && gathered != all) return expect(false, "gather");
      if (Status s = group.run(rank == 1 ? scatter(from(all), into(back), 1) : scatter(into(back), 1)); !s.ok())
        return s;
      if (back != part) return expect(false, "scatter");
      if (Status s = group.run(reduce_scatter(from(all), into(back), ReduceOp::average)); !s.ok()) return s;
      if (back != part) return expect(false, "reduce_scatter");
      std::vector<float> copy = rank == 3 ? part : std::vector<float>(count);
      if (Status s = group.run(broadcast(in_place(copy), 3)); !s.ok()) return s;
      if (copy[0] != 3000) return expect(false, "broadcast");
      std::vector<float> sum(count);
      if (Status s = group.run(rank == 4 ? reduce(from(part), into(sum), ReduceOp::maximum, 4)
                                         : reduce(from(part), ReduceOp::maximum, 4));
          !s.ok())
        return s;
      if (rank == 4 && sum[0] != 4000) return expect(false, "reduce");
    }
    return Status();
  });
}

TEST(Group, SendsAndReceivesByTagAndToOneself) {
  on_every_wire(2, [](ProcessGroup& group) {
    const Rank other = 1 - group.rank();
    for (const uint64_t count : {0, 3, 50000}) {
      std::vector<int32_t> a(count, 1 + static_cast<int>(group.rank())), b(count, 11), c(count), d(count), self(count);
      Work first = group.start(send(from(a), other, 1));
      Work second = group.start(send(from(b), other, 2));
      if (Status s = group.run(receive(into(d), other, 2)); !s.ok()) return s;
      if (Status s = group.run(receive(into(c), other, 1)); !s.ok()) return s;
      if (Status s = first.wait(); !s.ok()) return s;
      if (Status s = second.wait(); !s.ok()) return s;
      if (d != b || c != std::vector<int32_t>(count, 1 + static_cast<int>(other))) return expect(false, "wrong data");
      Work to_self = group.start(receive(into(self), group.rank()));
      if (Status s = group.run(send(from(a), group.rank())); !s.ok()) return s;
      if (Status s = to_self.wait(); !s.ok()) return s;
      if (self != a) return expect(false, "wrong data to self");
      Rank source = 9;
      if (Status s = group.run(batch({send(from(a), other, 5), receive_any(into(c), &source, 5)})); !s.ok()) return s;
      if (source != other) return expect(false, "wrong source");
    }
    return Status();
  });
}

TEST(Group, FusesABatch) {
  on_every_wire(3, [](ProcessGroup& group) {
    std::vector<float> a(10, 1.0f), empty;
    std::vector<int64_t> b(100000, 2);
    std::vector<uint8_t> c(3, static_cast<uint8_t>(group.rank()));
    if (Status s = group.run(batch({all_reduce(in_place(a)), all_reduce(in_place(b)), all_reduce(in_place(empty)),
                                    broadcast(in_place(c), 1)}));
        !s.ok())
      return s;
    return expect(
        a == std::vector<float>(10, 3.0f) && b == std::vector<int64_t>(100000, 6) && c == std::vector<uint8_t>(3, 1),
        "batch");
  });
}

TEST(Group, SplitsAndMakesSubgroups) {
  on_every_wire(4, [](ProcessGroup& group) {
    auto half = group.split(group.rank() % 2, -static_cast<int64_t>(group.rank()));
    if (!half.ok()) return half.status();
    std::vector<int32_t> value = {static_cast<int32_t>(group.rank())};
    if (Status s = half->run(all_reduce(in_place(value))); !s.ok()) return s;
    if (value[0] != (group.rank() % 2 ? 4 : 2)) return expect(false, "split");
    if (half->members()[half->rank()] != group.rank() || half->members()[0] < half->members()[1])
      return expect(false, "members");
    if (group.rank() != 0) {
      auto some = group.subgroup({3, 1, 2});
      if (!some.ok()) return some.status();
      std::vector<int32_t> all(3), mine = {static_cast<int32_t>(group.rank())};
      if (Status s = some->run(all_gather(from(mine), into(all))); !s.ok()) return s;
      if (all != std::vector<int32_t>{3, 1, 2}) return expect(false, "subgroup");
    }
    return group.run(barrier());
  });
}

TEST(Group, TellsAMismatchOnAllRanksAndGoesOn) {
  on_every_wire(3, [](ProcessGroup& group) {
    for (const uint64_t big : {1, 100000}) {
      std::vector<float> x(big + (group.rank() == 1 ? 1 : 0));
      const Status status = group.run(all_reduce(in_place(x)));
      if (status.code() != StatusCode::mismatch) return expect(false, "no mismatch but: " + status.to_string());
      if (status.message().find("rank 1") == std::string::npos)
        return expect(false, "does not name rank 1: " + status.message());
      std::vector<int32_t> y = {1};
      if (Status s = group.run(all_reduce(in_place(y))); !s.ok()) return s;
      if (y[0] != 3) return expect(false, "wrong after a mismatch");
    }
    return Status();
  });
}

TEST(Group, NamesTheRankThatDidNotCome) {
  on_every_wire(3, [](ProcessGroup& group) {
    if (group.rank() == 2) {
      std::this_thread::sleep_for(700ms);
      std::vector<float> x(3);
      const Status late = group.run(all_reduce(in_place(x)));
      return expect(late.code() == StatusCode::timeout, "late rank: " + late.to_string());
    }
    std::vector<float> x(3);
    const Status status = group.run(all_reduce(in_place(x), ReduceOp::sum, {.timeout = 300ms}));
    if (status.code() != StatusCode::timeout) return expect(false, "not a timeout: " + status.to_string());
    return expect(status.ranks() == std::vector<Rank>{2}, "blames others: " + status.to_string());
  });
}

TEST(Group, AbortWakesEveryone) {
  on_every_wire(3, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      std::this_thread::sleep_for(100ms);
      group.abort("enough");
    }
    const Status status = group.run(barrier());
    if (group.rank() != 0) return expect(status.code() == StatusCode::aborted, status.to_string());
    return expect(status.code() == StatusCode::aborted && group.last_failure().code() == StatusCode::aborted,
                  status.to_string());
  });
}

TEST(Group, ALostRankIsNamed) {
  on_every_wire(3, [](ProcessGroup& group) {
    if (group.rank() == 1) return Status();  // leaves
    const Status status = group.run(barrier());
    return expect(status.code() == StatusCode::peer_lost && status.ranks() == std::vector<Rank>{1}, status.to_string());
  });
}

TEST(Group, ManyThreadsShareAGroup) {
  on_every_wire(2, [](ProcessGroup& group) {
    std::vector<std::thread> threads;
    std::vector<Status> statuses(4);
    for (uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50 && statuses[t].ok(); ++i) {
          std::vector<int32_t> out(1 + 100 * t, static_cast<int>(t)), in(1 + 100 * t);
          statuses[t] =
              group.run(batch({send(from(out), 1 - group.rank(), t), receive(into(in), 1 - group.rank(), t)}));
          if (statuses[t].ok() && in != out) statuses[t] = expect(false, "wrong data");
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return Status();
  });
}

TEST(Group, StartedWorkGoesOnByItself) {
  on_every_wire(2, [](ProcessGroup& group) {
    std::vector<int32_t> x(100000, 1);
    Work work = group.start(all_reduce(in_place(x)));
    std::atomic<int> called = 0;
    work.then([&](Status status) { called = status.ok() ? 1 : 2; });
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!work.done() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    if (!work.done()) return expect(false, "no progress without a waiter");
    while (called == 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    return expect(called == 1 && x[99999] == 2, "callback or result");
  });
}

TEST(Group, RunsForkedRanksOverMappedMemory) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const char* transport : {"shm", "tcp"}) {
    const Status status = run_forked(3,
                                     [](ProcessGroup& group) {
                                       auto memory = allocate(1 << 20).value();
                                       auto out = allocate(1 << 20).value();
                                       auto x = memory.as<int32_t>();
                                       auto y = out.as<int32_t>();
                                       for (auto& v : x) v = static_cast<int32_t>(group.rank());
                                       for (int round = 0; round < 3; ++round) {
                                         if (!group.run(all_reduce(from(x), into(y))).ok()) return 1;
                                         if (y[0] != 3 || y[y.size() - 1] != 3) return 2;
                                         std::vector<int32_t> ordinary(50000, 1);
                                         if (!group.run(all_reduce(in_place(ordinary))).ok() || ordinary[49999] != 3)
                                           return 3;
                                       }
                                       return 0;
                                     },
                                     {.timeout = 20s, .transport = transport});
    EXPECT_TRUE(status.ok()) << transport << ": " << status.to_string();
  }
}

TEST(Group, AKilledProcessIsNamedInMilliseconds) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  const Status status = run_forked(3,
                                   [](ProcessGroup& group) {
                                     if (!group.run(barrier()).ok()) return 1;
                                     if (group.rank() == 1) raise(SIGKILL);
                                     const auto began = std::chrono::steady_clock::now();
                                     const Status lost = group.run(barrier());
                                     if (lost.code() != StatusCode::peer_lost || lost.ranks() != std::vector<Rank>{1})
                                       return 2;
                                     return std::chrono::steady_clock::now() - began < 5s ? 0 : 3;
                                   },
                                   {.timeout = 20s});
  EXPECT_EQ(status.code(), StatusCode::peer_lost);
  EXPECT_EQ(status.message(), "rank 1 was ended by signal 9");
}

// The news of a death must not overtake what the dead rank had published: rank 0 sleeps in the barrier that rank 1
// finishes before it dies.
TEST(Group, ADeathCostsNobodyTheOperationBefore) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (int time = 0; time < 25; ++time) {
    const Status status = run_forked(3,
                                     [](ProcessGroup& group) {
                                       if (group.rank() != 0) std::this_thread::sleep_for(4ms);
                                       if (!group.run(barrier()).ok()) return 1;
                                       if (group.rank() == 1) raise(SIGKILL);
                                       return 0;
                                     },
                                     {.timeout = 20s});
    ASSERT_EQ(status.message(), "rank 1 was ended by signal 9");
  }
}

}  // namespace
}  // namespace regroup
