// SPDX-License-Identifier: Apache-2.0
// Groups under attack: ranks that die, leave, come late or never; abort from anywhere; signals, forks, and many groups,
// threads and messages at once. Every wait here is bounded: a hang is a failure that says where.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "regroup/regroup.h"
#include "unit/forked_ranks.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 20;
#else
constexpr int kRounds = 200;
#endif

Status expect(bool holds, const std::string& what) { return holds ? Status() : Status(StatusCode::internal, what); }

Status expect_blame(const Status& status, StatusCode code, const std::vector<Rank>& ranks) {
  return expect(status.code() == code && status.ranks() == ranks, "got " + status.to_string());
}

// Ranks as threads; `body` returns the first failure. Every rank's group is left when its body returns.
void on_wire(const Wire& wire, Rank size, const std::function<Status(ProcessGroup&)>& body,
             std::chrono::nanoseconds timeout = 20s) {
  SCOPED_TRACE(wire.name);
  auto store = make_hash_store();
  std::vector<Status> statuses(size);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      JoinOptions options = options_for(wire, rank, size, timeout);
      options.store = store;
      auto group = join(options);
      statuses[rank] = group.ok() ? body(*group) : group.status();
    });
  }
  for (auto& thread : threads) thread.join();
  for (Rank rank = 0; rank < size; ++rank)
    EXPECT_TRUE(statuses[rank].ok()) << "rank " << rank << ": " << statuses[rank].to_string();
}

void on_every_wire(Rank size, const std::function<Status(ProcessGroup&)>& body,
                   std::chrono::nanoseconds timeout = 20s) {
  for (const Wire& wire : kWires) on_wire(wire, size, body, timeout);
}

// A vector with words on both sides that nobody may touch.
struct Guarded {
  explicit Guarded(uint64_t count, int32_t value = 0) : words(count + 2 * kMargin, kCanary) {
    std::fill(words.begin() + kMargin, words.end() - kMargin, value);
  }
  std::span<int32_t> span() { return std::span(words).subspan(kMargin, words.size() - 2 * kMargin); }
  bool intact() const {
    const auto is_canary = [](int32_t word) { return word == kCanary; };
    return std::all_of(words.begin(), words.begin() + kMargin, is_canary) &&
           std::all_of(words.end() - kMargin, words.end(), is_canary);
  }
  bool holds(int32_t value) {
    const auto inner = span();
    return intact() && std::all_of(inner.begin(), inner.end(), [value](int32_t word) { return word == value; });
  }
  static constexpr int32_t kCanary = 0x5ca1ab1e;
  static constexpr ptrdiff_t kMargin = 16;
  std::vector<int32_t> words;
};

// All-reduces of all sizes until one fails; that one's status. `internal` where a result was wrong.
Status reduce_until_failure(ProcessGroup& group, std::chrono::nanoseconds limit = 15s) {
  const auto until = Clock::now() + limit;
  const int32_t size = static_cast<int32_t>(group.size());
  for (int32_t round = 0; Clock::now() < until; ++round) {
    const uint64_t counts[] = {2, 16 << 10, 2 << 20};
    Guarded in(counts[round % 3], round), out(counts[round % 3]);
    const Status status = group.run(all_reduce(from(in.span()), into(out.span())));
    if (!out.intact() || !in.holds(round)) return Status(StatusCode::internal, "memory beside or the input is spoilt");
    if (!status.ok()) return status;
    if (!out.holds(round * size)) return Status(StatusCode::internal, "wrong sum in round " + std::to_string(round));
  }
  return Status();
}

// all_to_all by lists: some ranks show what they give with their arrival, others have so much that all go by plan.
constexpr uint64_t kShort = 3, kLong = 20'000;  // elements; 64 KiB is the limit

// What `giver` gives to `taker` in `round`: in turn nobody, one rank, or all give much, some pairs nothing.
uint64_t pair_count(uint64_t round, Rank size, Rank giver, Rank taker) {
  if (giver != taker && (giver + taker + round) % 5 == 0) return 0;
  const bool gives_much = round % 4 == 1 ? giver == round / 4 % size : round % 4 == 3;
  return (gives_much && taker == (giver + 1) % size ? kLong : kShort) + round % 3;
}

struct Lists {
  std::vector<std::vector<uint32_t>> inputs, outputs;
  Lists(uint64_t round, Rank rank, Rank size) {
    for (Rank peer = 0; peer < size; ++peer) {
      inputs.emplace_back(pair_count(round, size, rank, peer), static_cast<uint32_t>(rank << 16 | peer << 8 | round));
      outputs.emplace_back(pair_count(round, size, peer, rank), ~0u);
    }
  }
  Operation exchange() { return all_to_all(from(inputs), into(outputs)); }
  bool right(uint64_t round, Rank rank) const {
    for (Rank peer = 0; peer < outputs.size(); ++peer) {
      const auto expected = static_cast<uint32_t>(peer << 16 | rank << 8 | round);
      for (const uint32_t value : outputs[peer]) {
        if (value != expected) return false;
      }
    }
    return true;
  }
};

Status exchange_until_failure(ProcessGroup& group, std::chrono::nanoseconds limit = 10s) {
  const auto until = Clock::now() + limit;
  for (uint64_t round = 0; Clock::now() < until; ++round) {
    Lists lists(round % 250, group.rank(), group.size());
    if (Status status = group.run(lists.exchange()); !status.ok()) return status;
    if (!lists.right(round % 250, group.rank())) return Status(StatusCode::internal, "wrong lists");
  }
  return Status();
}

TEST(GroupFaults, SurvivorsOfAKillNameTheDead) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  const char* more = std::getenv("REGROUP_TEST_SEEDS");
  const unsigned seeds = more != nullptr ? static_cast<unsigned>(std::atoi(more)) : 4;
  for (const Wire& wire : kWires) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      std::mt19937 random(seed);
      const Rank victim = random() % 4;
      const auto moment = std::chrono::microseconds(random() % 60000);
      const std::vector<int> ends = forked(4, wire, [&](ProcessGroup& group) {
        if (!group.run(barrier()).ok()) return 2;
        std::thread killer([&] {
          if (group.rank() != victim) return;
          std::this_thread::sleep_for(moment);
          kill(getpid(), SIGKILL);
        });
        const Status status = seed % 2 == 0 ? reduce_until_failure(group) : exchange_until_failure(group);
        killer.join();
        if (status.code() == StatusCode::peer_lost && status.ranks() == std::vector<Rank>{victim}) return 0;
        std::fprintf(stderr, "rank %u: %s\n", group.rank(), status.to_string().c_str());
        return 3;
      });
      for (Rank rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(ends[rank], rank == victim ? SIGKILL : 0)
            << wire.name << ", seed " << seed << ", rank " << rank << ", victim " << victim;
      }
    }
  }
}

TEST(GroupFaults, ARankThatLeavesMidwayIsNamed) {
  on_every_wire(3, [](ProcessGroup& group) {
    for (int round = 0; round < 5; ++round) {
      std::vector<int32_t> x(30000, round);
      const Status status = group.run(all_reduce(in_place(x)));
      // A rank that is behind may hear from the other before it has ended the last one.
      if (!status.ok()) return round < 4 ? status : expect_blame(status, StatusCode::peer_lost, {2});
    }
    if (group.rank() == 2) return Status();
    return expect_blame(reduce_until_failure(group), StatusCode::peer_lost, {2});
  });
}

// Whoever finishes first may free its memory and leave: the others need it no more.
TEST(GroupFaults, MemoryMayGoAsSoonAsItsOwnerHasFinished) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const Wire& wire : kWires) {
    const std::vector<int> ends = forked(5, wire, [](ProcessGroup& group) {
      for (int round = 0; round < 100; ++round) {
        auto memory = allocate(65535 * sizeof(int32_t)).value();
        auto x = memory.as<int32_t>();
        for (auto& word : x) word = round;
        const Rank root = static_cast<Rank>(round) % group.size();
        if (Status s =
                group.run(round % 2 == 0 ? reduce(in_place(x), ReduceOp::sum, root) : broadcast(in_place(x), root));
            !s.ok()) {
          std::fprintf(stderr, "rank %u, round %d: %s\n", group.rank(), round, s.to_string().c_str());
          return 1;
        }
      }
      return 0;
    });
    for (const int end : ends) EXPECT_EQ(end, 0) << wire.name;
  }
}

TEST(GroupFaults, AbortComesFromAnywhereAnyNumberOfTimes) {
  on_every_wire(3, [](ProcessGroup& group) {
    Work waiting = group.start(barrier());
    std::atomic<int> called = 0;
    if (group.rank() == 1) {
      std::vector<int32_t> given(1);
      Work mine = group.start(send(from(given), group.rank(), 7));
      std::vector<int32_t> got(1);
      Work received = group.start(receive(into(got), group.rank(), 7));
      received.then([group, &called](Status) mutable {
        group.abort("from a callback");
        group.abort("again");
        called = 1;
      });
      (void)mine.wait();
      const Status after = group.run(receive(into(got), 0, 8));
      while (called == 0) std::this_thread::sleep_for(1ms);
      return expect_blame(after, StatusCode::aborted, {1});
    }
    std::vector<std::thread> threads;
    std::vector<Status> statuses(4);
    for (Rank t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::vector<int32_t> x(1);
        statuses[t] = group.run(receive(into(x), 1, t));
      });
    }
    for (auto& thread : threads) thread.join();
    (void)waiting.wait();
    for (const Status& status : statuses) {
      if (Status s = expect_blame(status, StatusCode::aborted, {1}); !s.ok()) return s;
    }
    return Status();
  });
}

TEST(GroupFaults, AGroupIsLeftWithOperationsInFlight) {
  on_every_wire(3, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      auto memory = std::make_shared<std::vector<int32_t>>(100000, 1);
      (void)group.start(all_reduce(in_place(*memory)).owned_by(memory));
      return Status();  // leaves, with the others on their way
    }
    if (group.rank() == 1) {
      std::vector<int32_t> x(100000, 1);
      const Status status = group.run(all_reduce(in_place(x)));
      return expect(status.code() == StatusCode::aborted || status.code() == StatusCode::peer_lost,
                    "got " + status.to_string());
    }
    std::this_thread::sleep_for(1200ms);
    return Status();
  });
}

// The last holder of a group may be what one of its own operations owns.
TEST(GroupFaults, AnOperationMayHoldTheLastCopyOfItsGroup) {
  on_every_wire(2, [](ProcessGroup& group) {
    for (int round = 0; round < 10; ++round) {
      auto sub = group.subgroup({0, 1});
      if (!sub.ok()) return sub.status();
      struct Held {
        ProcessGroup group;
        std::vector<int32_t> memory;
      };
      auto held = std::make_shared<Held>(Held{*sub, std::vector<int32_t>(1000, 1)});
      Operation operation = all_reduce(in_place(held->memory)).owned_by(held);
      ProcessGroup last = *sub;
      sub = ProcessGroup();
      held = nullptr;
      Work work = last.start(std::move(operation));
      work.then([last](Status) {});
    }
    return group.run(barrier());
  });
}

size_t entries_of(const char* directory) {
  size_t count = 0;
  DIR* open = opendir(directory);
  while (open != nullptr && readdir(open) != nullptr) ++count;
  if (open != nullptr) closedir(open);
  return count;
}
size_t maps() {
  std::ifstream file("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

TEST(GroupFaults, GroupsThatCameAndWentLeaveNothing) {
  const auto rounds = [](int count) {
    for (int round = 0; round < count; ++round) {
      on_wire(kWires[round % 4], 2, [](ProcessGroup& group) {
        std::vector<int32_t> x(5000, 1);
        Work work = group.start(all_reduce(in_place(x)));
        return work.wait();
      });
    }
  };
  rounds(8);
  const size_t descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task"), mapped = maps();
  rounds(kRounds);
  EXPECT_LE(entries_of("/proc/self/fd"), descriptors);
  EXPECT_LE(entries_of("/proc/self/task"), threads + 1);  // the kernel may still be burying one
  EXPECT_LE(maps(), mapped + 16);                         // the allocator's own
}

TEST(GroupFaults, TwoGroupsInOppositeOrder) {
  on_every_wire(2, [](ProcessGroup& group) {
    auto other = group.subgroup({1, 0});
    if (!other.ok()) return other.status();
    std::vector<Status> statuses(2);
    const auto use = [&](ProcessGroup& which, Status* status) {
      for (int32_t round = 0; round < 50 && status->ok(); ++round) {
        std::vector<int32_t> x(round % 2 ? 3 : 30000, round);
        *status = which.run(all_reduce(in_place(x)));
        if (status->ok() && x[2] != 2 * round) *status = expect(false, "wrong sum");
      }
    };
    const bool first = group.rank() == 0;
    std::thread thread([&] { use(first ? *other : group, &statuses[0]); });
    use(first ? group : *other, &statuses[1]);
    thread.join();
    return statuses[0].ok() ? statuses[1] : statuses[0];
  });
}

TEST(GroupFaults, DisjointSubgroupsAreMadeAtOnce) {
  on_every_wire(4, [](ProcessGroup& group) {
    for (int round = 0; round < 3; ++round) {
      auto half = group.rank() < 2 ? group.subgroup({0, 1}) : group.subgroup({3, 2});
      if (!half.ok()) return half.status();
      std::vector<int32_t> x = {static_cast<int32_t>(group.rank())};
      if (Status s = half->run(all_reduce(in_place(x))); !s.ok()) return s;
      if (x[0] != (group.rank() < 2 ? 1 : 5)) return expect(false, "wrong sum");
    }
    return Status();
  });
}

TEST(GroupFaults, ManyThreadsAndOneThatAborts) {
  on_every_wire(2, [](ProcessGroup& group) {
    std::atomic<int> rounds = 0;
    std::vector<std::thread> threads;
    std::vector<Status> statuses(8);
    for (uint32_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        const Rank other = 1 - group.rank();
        for (int32_t i = 0; statuses[t].ok(); ++i) {
          Guarded out(1 + 3000 * t, i), in(1 + 3000 * t);
          Work sent = group.start(send(from(out.span()), other, t));
          statuses[t] = group.run(receive(into(in.span()), other, t));
          const Status also = sent.wait();
          if (statuses[t].ok()) statuses[t] = also;
          if (!in.intact() || (statuses[t].ok() && !in.holds(i))) statuses[t] = expect(false, "wrong data");
          ++rounds;
        }
      });
    }
    std::thread ninth([&] {
      while (rounds < 200) std::this_thread::sleep_for(1ms);
      if (group.rank() == 0) group.abort("enough");
    });
    for (auto& thread : threads) thread.join();
    rounds = 200;
    ninth.join();
    for (const Status& status : statuses) {
      if (Status s = expect_blame(status, StatusCode::aborted, {0}); !s.ok()) return s;
    }
    return Status();
  });
}

// Every collective of `size` ranks, over `x` (which has room for all parts).
Operation collective(int which, ProcessGroup& group, std::vector<int32_t>& x, std::vector<int32_t>& y,
                     CallOptions options) {
  const uint64_t part = x.size() / group.size();
  const std::span<int32_t> piece(x.data(), part), all(y);
  const bool root = group.rank() == 0;
  switch (which) {
    case 0:
      return barrier(options);
    case 1:
      return broadcast(in_place(x), 0, options);
    case 2:
      return all_reduce(in_place(x), ReduceOp::sum, options);
    case 3:
      return reduce(in_place(x), ReduceOp::sum, 0, options);
    case 4:
      return all_gather(from(piece), into(all), options);
    case 5:
      return root ? gather(from(piece), into(all), 0, options) : gather(from(piece), 0, options);
    case 6:
      return root ? scatter(from(all), into(piece), 0, options) : scatter(into(piece), 0, options);
    case 7:
      return reduce_scatter(from(all), into(piece), ReduceOp::sum, options);
    default:
      return all_to_all(from(x), into(y), options);
  }
}

// Those that came to the next operation miss a rank that still waits for the late one in this, too.
Status blames_the_late(const Status& status) {
  return expect(status.code() == StatusCode::timeout && !status.ranks().empty() && status.ranks().back() == 2,
                "got " + status.to_string());
}

TEST(GroupFaults, AnyCollectiveWaitsForALateRankUntilItsDeadlineAndNamesIt) {
  constexpr int kCollectives = 9;
  for (const uint64_t count : {3, 60000}) {
    for (int which = 0; which < kCollectives; ++which) {
      SCOPED_TRACE("collective " + std::to_string(which) + " of " + std::to_string(count));
      on_wire(kWires[(static_cast<size_t>(which) + count / 60000) % 4], 3, [&](ProcessGroup& group) {
        std::vector<int32_t> x(count, 1), y(count, 1);
        if (Status s = group.set_timeout(10s); !s.ok()) return s;
        if (group.rank() == 2) std::this_thread::sleep_for(60ms);
        if (Status s = group.run(collective(which, group, x, y, {})); !s.ok()) return s;
        if (Status s = group.run(barrier()); !s.ok()) return s;
        if (group.rank() == 2) {
          const auto until = Clock::now() + 5s;
          while (group.last_failure().ok() && Clock::now() < until) std::this_thread::sleep_for(5ms);
          return blames_the_late(group.run(barrier()));
        }
        // Roots that only give, and ranks that only send, may be done before anybody misses the late one.
        Status status = group.run(collective(which, group, x, y, {.timeout = 150ms}));
        if (status.ok()) status = group.run(barrier({.timeout = 150ms}));
        return blames_the_late(status);
      });
    }
  }
}

// --- all_to_all by lists

TEST(GroupFaults, ListsOfWhichSomeAreLongTakeTurns) {
  for (const Wire& wire : kWires) {
    for (const Rank size : {2u, 3u, 9u}) {
      on_wire(wire, size, [&](ProcessGroup& group) {
        for (uint64_t round = 0; round < (size > 4 ? 16u : 48u); ++round) {
          Lists lists(round, group.rank(), size);
          // Every third time it is started, with another one behind it.
          const bool starts = round % 3 == 2;
          Work work = starts ? group.start(lists.exchange()) : Work();
          Lists next(round + 1, group.rank(), size);
          if (Status status = group.run(next.exchange()); !status.ok()) return status;
          if (starts && !work.wait().ok()) return work.status();
          if (starts && !lists.right(round, group.rank())) return Status(StatusCode::internal, "wrong, started");
          if (!next.right(round + 1, group.rank())) return Status(StatusCode::internal, "wrong, run");
        }
        return Status();
      });
    }
  }
}

TEST(GroupFaults, ListsThatDoNotFitAreNamedOnEveryRank) {
  on_wire(kWires[0], 3, [&](ProcessGroup& group) {
    for (uint64_t round = 0; round < 12; ++round) {
      const Rank giver = static_cast<Rank>(round % 3), taker = (giver + 1) % 3;
      const uint64_t takes = pair_count(0, 3, giver, taker), gives = round % 2 == 0 ? takes + 1 : kLong;
      Lists lists(0, group.rank(), 3);
      if (group.rank() == giver) lists.inputs[taker].resize(gives);
      const Status status = group.run(lists.exchange());
      const std::string sizes =
          std::to_string(4 * gives) + " bytes are given where " + std::to_string(4 * takes) + " are taken";
      if (status.message().find(sizes) == std::string::npos) return expect(false, "got " + status.to_string());
      const std::vector<Rank> both = {std::min(giver, taker), std::max(giver, taker)};
      if (Status blame = expect_blame(status, StatusCode::mismatch, both); !blame.ok()) return blame;
      if (Status after = group.run(barrier()); !after.ok()) return after;
    }
    return Status();
  });
}

TEST(GroupFaults, ListsWaitForALateRankUntilTheirDeadlineAndNameIt) {
  for (uint64_t round = 0; round < 4; ++round) {  // short, one long, short, all long
    std::atomic<int> told = 0;
    on_wire(kWires[0], 4, [&](ProcessGroup& group) {
      if (Status status = group.run(barrier()); !status.ok()) return status;
      if (group.rank() == 2) {
        while (told < 3) std::this_thread::sleep_for(5ms);
        return Status();
      }
      if (Status set = group.set_timeout(400ms); !set.ok()) return set;
      Lists lists(round, group.rank(), 4);
      const Status status = group.run(lists.exchange());
      ++told;
      return expect_blame(status, StatusCode::timeout, {2});
    });
  }
}

TEST(GroupFaults, AChildMayBeForkedBesideAGroup) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  on_every_wire(2, [](ProcessGroup& group) {
    for (int round = 0; round < 3; ++round) {
      std::vector<int32_t> x(50000, 1);
      Work work = group.start(all_reduce(in_place(x)));
      work.then([](Status) {});
      const pid_t child = fork();
      if (child == 0) {
        alarm(10);
        std::vector<int32_t> y(1);
        const bool refused = group.run(all_reduce(in_place(y))).code() == StatusCode::unsupported;
        group.abort("nobody hears it");
        group = ProcessGroup();
        (void)allocate(4096);
        _exit(refused ? 0 : 1);
      }
      int how = -1;
      if (waitpid(child, &how, 0) != child || how != 0) return expect(false, "child: " + std::to_string(how));
      if (Status s = work.wait(); !s.ok()) return s;
      if (x[49999] != 2) return expect(false, "wrong sum beside a child");
    }
    return Status();
  });
}

TEST(GroupFaults, JoiningFailsWithTheReason) {
  JoinOptions options;
  options.store = make_hash_store();
  options.size = 3;
  options.rank = 1;
  options.timeout = 150ms;
  const Status missing = join(options).status();
  EXPECT_EQ(missing.code(), StatusCode::timeout) << missing.to_string();
  EXPECT_EQ(missing.ranks(), (std::vector<Rank>{0, 2})) << missing.to_string();
  options.rank = 3;
  EXPECT_EQ(join(options).status().code(), StatusCode::invalid_argument);
  options.rank = 0;
  options.transport = "pigeon";
  EXPECT_EQ(join(options).status().code(), StatusCode::invalid_argument);
  options.transport = "auto";
  options.store = nullptr;
  options.store_url = "tcp://127.0.0.1:1";
  const auto began = Clock::now();
  const Status unhosted = join(options).status();
  EXPECT_FALSE(unhosted.ok());
  EXPECT_LT(Clock::now() - began, 5s) << unhosted.to_string();
}

std::atomic<unsigned> g_signals = 0;

TEST(GroupFaults, SignalsInterruptNothing) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++g_signals; };  // without SA_RESTART
  sigaction(SIGALRM, &action, &before);
  constexpr long kMicroseconds = kRounds == 200 ? 1000 : 10000;  // sanitizers make much of a signal
  const itimerval often{{0, kMicroseconds}, {0, kMicroseconds}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  on_every_wire(3, [](ProcessGroup& group) {
    for (int32_t round = 0; round < 30; ++round) {
      Guarded x(round % 3 == 0 ? 1 : round % 3 == 1 ? 5000 : 300000, round);
      if (round % 10 == 0 && group.rank() == 0) std::this_thread::sleep_for(20ms);
      if (Status s = group.run(all_reduce(in_place(x.span()))); !s.ok()) return s;
      if (!x.holds(3 * round)) return expect(false, "wrong sum");
    }
    return Status();
  });
  const auto memory = allocate(256 << 20);
  EXPECT_TRUE(memory.ok()) << memory.status().to_string();
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(g_signals, 10u);
}

TEST(GroupFaults, HundredsOfMessagesToOnePeerInAnyOrder) {
  on_every_wire(2, [](ProcessGroup& group) {
    constexpr uint32_t kMessages = 300;
    const Rank other = 1 - group.rank();
    for (const bool backwards : {false, true}) {
      for (const uint64_t count : {5, 2000}) {
        std::vector<Guarded> out, in;
        std::vector<Work> sent;
        for (uint32_t tag = 0; tag < kMessages; ++tag) out.emplace_back(count, static_cast<int32_t>(tag));
        for (uint32_t tag = 0; tag < kMessages; ++tag)
          sent.push_back(group.start(send(from(out[tag].span()), other, tag)));
        for (uint32_t i = 0; i < kMessages; ++i) {
          const uint32_t tag = backwards ? kMessages - 1 - i : i;
          Guarded got(count);
          if (Status s = group.run(receive(into(got.span()), other, tag, {.timeout = 5s})); !s.ok()) return s;
          if (!got.holds(static_cast<int32_t>(tag))) return expect(false, "wrong message");
        }
        for (Work& work : sent) {
          if (Status s = work.wait(); !s.ok()) return s;
        }
      }
    }
    return Status();
  });
}

TEST(GroupFaults, APreparedOperationRunsFromTwoThreads) {
  on_every_wire(2, [](ProcessGroup& group) {
    std::vector<int32_t> in(40000, 1), out(40000);
    auto prepared = group.prepare(all_reduce(from(in), into(out)));
    if (!prepared.ok()) return prepared.status();
    std::vector<Status> statuses(2);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 30 && statuses[t].ok(); ++i)
          statuses[t] = i % 3 == 0 ? prepared->start().wait() : prepared->run();
      });
    }
    for (auto& thread : threads) thread.join();
    if (!statuses[0].ok()) return statuses[0];
    if (!statuses[1].ok()) return statuses[1];
    return expect(out == std::vector<int32_t>(40000, 2), "wrong sum");
  });
}

TEST(GroupFaults, ABatchOfThousandsOfTinyTensors) {
  on_every_wire(3, [](ProcessGroup& group) {
    std::vector<std::vector<float>> floats(1000);
    std::vector<std::vector<int64_t>> words(1000);
    std::vector<Operation> members;
    for (size_t i = 0; i < 1000; ++i) {
      floats[i].assign(i % 7, static_cast<float>(i));
      words[i].assign(1 + i % 3, static_cast<int64_t>(i));
      members.push_back(all_reduce(in_place(floats[i])));
      members.push_back(all_reduce(in_place(words[i]), ReduceOp::maximum));
    }
    if (Status s = group.run(batch(std::move(members))); !s.ok()) return s;
    for (size_t i = 0; i < 1000; ++i) {
      for (const float value : floats[i]) {
        if (value != 3 * static_cast<float>(i)) return expect(false, "wrong sum " + std::to_string(i));
      }
      for (const int64_t value : words[i]) {
        if (value != static_cast<int64_t>(i)) return expect(false, "wrong maximum " + std::to_string(i));
      }
    }
    return Status();
  });
}

}  // namespace
}  // namespace regroup
