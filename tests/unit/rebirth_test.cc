// SPDX-License-Identifier: Apache-2.0
// Groups that outlive their members: agree, shrink, leave, reconfigure, over every wire, with ranks as threads and as
// processes. Every wait here is bounded.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "unit/forked_ranks.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

// The wires on which groups are reborn: how memory is read makes no difference to that.
constexpr Wire kRebirthWires[] = {{"shm", "shm"}, {"tcp", "tcp"}, {"mixed", "auto", true}};

Status expect(bool holds, const std::string& what) { return holds ? Status() : Status(StatusCode::internal, what); }

// The sum of all members' first ranks, twice: as a small and as a large vector.
Status sums_are_right(ProcessGroup& group) {
  int64_t sum = 0;
  for (const Rank member : group.members()) sum += member;
  for (const uint64_t count : {1, 100'000}) {
    std::vector<int64_t> input(count, static_cast<int64_t>(group.members()[group.rank()])), output(count, -1);
    if (Status status = group.run(all_reduce(from(input), into(output))); !status.ok()) return status;
    for (const int64_t value : output) {
      if (value != sum) return expect(false, "a sum is " + std::to_string(value) + ", not " + std::to_string(sum));
    }
  }
  return Status();
}

using Body = std::function<Status(ProcessGroup&, const std::shared_ptr<Store>&)>;

// Ranks as threads; every rank's group is left when its body returns.
void on_every_wire(Rank size, const Body& body, std::chrono::nanoseconds timeout = 10s) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    auto store = make_hash_store();
    std::vector<Status> statuses(size);
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        JoinOptions options = options_for(wire, rank, size, timeout);
        options.store = store;
        auto group = join(options);
        statuses[rank] = group.ok() ? body(*group, store) : group.status();
      });
    }
    for (auto& thread : threads) thread.join();
    for (Rank rank = 0; rank < size; ++rank)
      EXPECT_TRUE(statuses[rank].ok()) << "rank " << rank << ": " << statuses[rank].to_string();
  }
}

TEST(Rebirth, AgreesOnTheAndOfAllValues) {
  on_every_wire(5, [](ProcessGroup& group, const auto&) -> Status {
    for (int round = 0; round < 20; ++round) {
      const uint64_t mine = ~(uint64_t{1} << (group.rank() + static_cast<Rank>(round)));
      const auto agreed = group.agree(mine);
      if (!agreed.ok()) return agreed.status();
      if (Status status = expect(agreed.value().value == ~(uint64_t{0x1f} << round) && agreed.value().failed.empty(),
                                 "agreed on " + std::to_string(agreed.value().value));
          !status.ok())
        return status;
    }
    return sums_are_right(group);
  });
}

TEST(Rebirth, AMemberThatLeavesCostsNobodyAnError) {
  for (const Rank leaver : {0u, 1u, 3u}) {
    on_every_wire(4, [leaver](ProcessGroup& group, const auto&) -> Status {
      if (Status status = sums_are_right(group); !status.ok()) return status;
      if (group.rank() == leaver) return group.leave();
      if (Status status = group.shrink(); !status.ok()) return status;
      if (Status status = expect(group.size() == 3 && group.epoch() == 2, "not three in epoch 2"); !status.ok())
        return status;
      return sums_are_right(group);
    });
  }
}

TEST(Rebirth, OneByOneUntilOneIsLeft) {
  on_every_wire(5, [](ProcessGroup& group, const auto&) -> Status {
    while (group.size() > 1) {
      if (Status status = sums_are_right(group); !status.ok()) return status;
      if (group.rank() == 0) return group.leave();
      if (Status status = group.shrink(); !status.ok()) return status;
    }
    return sums_are_right(group);
  });
}

TEST(Rebirth, AfterAnAbortAllGoOn) {
  on_every_wire(3, [](ProcessGroup& group, const auto&) -> Status {
    if (group.rank() == 1) group.abort("trying");
    std::vector<int> values(1000);
    Status status;
    while (status.ok()) status = group.run(all_reduce(in_place(values)));
    if (status.code() != StatusCode::aborted) return status;
    if (Status shrunk = group.shrink(); !shrunk.ok()) return shrunk;
    if (Status same = expect(group.size() == 3 && group.epoch() == 2, "not all are left"); !same.ok()) return same;
    return sums_are_right(group);
  });
}

TEST(Rebirth, ReconfiguresTwentyTimes) {
  on_every_wire(3, [](ProcessGroup& group, const auto&) -> Status {
    for (int generation = 0; generation < 20; ++generation) {
      Membership next;
      next.rank = (group.rank() + 1) % group.size();
      next.size = group.size();
      next.name = "generation " + std::to_string(generation);
      if (Status status = group.reconfigure(next); !status.ok()) return status;
      if (Status status = expect(group.rank() == next.rank && group.epoch() == static_cast<uint64_t>(generation) + 2,
                                 "wrong rank or epoch");
          !status.ok())
        return status;
      if (Status status = sums_are_right(group); !status.ok()) return status;
    }
    return Status();
  });
}

TEST(Rebirth, NewcomersAreAdmittedAtTheNextGrow) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    auto store = make_hash_store();
    std::vector<Status> statuses(5);
    std::vector<std::thread> threads;
    const auto use = [](ProcessGroup& group) {
      // Members and newcomers go on alike.
      Status status = group.grow();  // nobody asks any more
      if (status.ok()) status = expect(group.size() == 5 && group.epoch() == 2, "not five in epoch 2");
      if (status.ok()) status = sums_are_right(group);
      return status;
    };
    for (Rank rank = 0; rank < 5; ++rank) {
      threads.emplace_back([&, rank] {
        JoinOptions options = options_for(wire, rank, 3, 10s);
        options.store = store;
        if (rank >= 3) {
          options.newcomer = true;
          auto group = join(options);
          statuses[rank] = group.ok() ? use(*group) : group.status();
          return;
        }
        auto group = join(options);
        Status& status = statuses[rank] = group.status();
        // Until both are there: each look is the same for all members.
        while (status.ok() && group->size() < 5) {
          int64_t asked = 0;
          if (rank == 0) asked = store->add("regroup/world/lobby/asked", 0).value();
          status = group->run(broadcast(in_place(&asked, 1), 0));
          if (status.ok() && asked == 2) status = group->grow();
        }
        if (status.ok()) status = use(*group);
      });
    }
    for (auto& thread : threads) thread.join();
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST(Rebirth, ANewcomerThatHasGoneAwayHarmsNobody) {
  on_every_wire(3, [](ProcessGroup& group, const std::shared_ptr<Store>& store) -> Status {
    // It asked, and will not come.
    if (group.rank() == 0) (void)store->add("regroup/world/lobby/asked", 1);
    if (Status status = group.run(barrier()); !status.ok()) return status;
    if (Status status = group.grow(300ms); status.code() != StatusCode::unsupported) return expect(false, "grown?");
    if (group.size() != 3 || group.epoch() != 1) return expect(false, "changed");
    if (Status status = group.grow(300ms); !status.ok()) return status;
    return sums_are_right(group);
  });
}

TEST(Rebirth, ANewcomerToAGroupThatDoesNotGrowGivesUp) {
  JoinOptions options;
  options.store = make_hash_store();
  options.newcomer = true;
  options.timeout = 50ms;
  EXPECT_EQ(join(options).status().code(), StatusCode::timeout);
}

TEST(Rebirth, AgreeAndShrinkDoNotMix) {
  on_every_wire(2, [](ProcessGroup& group, const auto&) -> Status {
    const Status status = group.rank() == 0 ? group.agree(1).status() : group.shrink();
    return expect(status.code() == StatusCode::mismatch, status.to_string());
  });
}

TEST(Rebirth, APreparedOperationServesInTheNextLife) {
  on_every_wire(3, [](ProcessGroup& group, const auto&) -> Status {
    std::vector<int> value(1);
    auto prepared = group.prepare(all_reduce(in_place(value)));
    if (!prepared.ok()) return prepared.status();
    value[0] = 1;
    if (Status status = prepared->run(); !status.ok()) return status;
    if (Status status = expect(value[0] == 3, "not 3"); !status.ok()) return status;
    if (group.rank() == 2) return group.leave();
    if (Status status = group.shrink(); !status.ok()) return status;
    value[0] = 1;
    if (Status status = prepared->run(); !status.ok()) return status;
    return expect(value[0] == 2, "not 2");
  });
}

TEST(Rebirth, AtomicOperationsThatEndWellKeepTheirResult) {
  on_every_wire(3, [](ProcessGroup& group, const auto&) -> Status {
    for (const uint64_t count : {0, 1, 1000, 300'000}) {
      std::vector<int> values(count, static_cast<int>(group.rank()));
      std::vector<int> gathered(3 * count, -1);
      if (Status status = group.run(all_reduce(in_place(values), ReduceOp::sum, {.atomic = true})); !status.ok())
        return status;
      if (Status status = group.run(batch({all_gather(from(values), into(gathered)), barrier()}, {.atomic = true}));
          !status.ok())
        return status;
      const auto three = [](int value) { return value == 3; };
      if (!std::all_of(values.begin(), values.end(), three) || !std::all_of(gathered.begin(), gathered.end(), three))
        return expect(false, "wrong result");
    }
    int word = 0;
    const Rank next = (group.rank() + 1) % 3;
    if (group.start(barrier({.atomic = true})).wait().code() != StatusCode::unsupported ||
        group.run(send(from(&word, 1), next, 0, {.atomic = true})).code() != StatusCode::unsupported)
      return expect(false, "not refused");
    return sums_are_right(group);
  });
}

TEST(Rebirth, AtomicOperationsThatFailAreUndoneForAll) {
  on_every_wire(3, [](ProcessGroup& group, const auto&) -> Status {
    std::vector<int> values(50'000, static_cast<int>(group.rank()) + 7);
    std::vector<int> output(50'000, 11);
    if (group.rank() == 2) group.abort("trying");
    const Status status = group.run(all_reduce(in_place(values), ReduceOp::sum, {.atomic = true}));
    if (status.code() != StatusCode::aborted) return expect(false, status.to_string());
    if (Status shrunk = group.shrink(); !shrunk.ok()) return shrunk;
    // A call that the others do not understand alike.
    const uint64_t count = group.rank() == 0 ? 49'999 : 50'000;
    const Status mixed =
        group.run(all_reduce(from(values.data(), count), into(output.data(), count), ReduceOp::sum, {.atomic = true}));
    if (mixed.code() != StatusCode::mismatch) return expect(false, mixed.to_string());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != static_cast<int>(group.rank()) + 7 || output[i] != 11) return expect(false, "not undone");
    }
    return sums_are_right(group);
  });
}

TEST(Rebirth, BadArgumentsAreToldAtOnce) {
  on_every_wire(2, [](ProcessGroup& group, const auto&) -> Status {
    for (const Status& status : {group.agree(1, 0s).status(), group.shrink({.timeout = -1s}), group.leave(0s),
                                 group.reconfigure({}), group.reconfigure({.rank = 2, .size = 2, .name = "x"})}) {
      if (Status bad = expect(status.code() == StatusCode::invalid_argument, status.to_string()); !bad.ok()) return bad;
    }
    return sums_are_right(group);
  });
}

#if !defined(__SANITIZE_THREAD__)  // it follows no threads into a forked child

// Ranks as processes, with a time-out that is not their watchdog's.
std::vector<int> forked_ranks(Rank size, const Wire& wire, const std::function<int(ProcessGroup&)>& body,
                              std::chrono::nanoseconds timeout = 10s) {
  return forked(size, wire, body, 30, timeout);
}

int tell(ProcessGroup& group, const char* what, const Status& status) {
  std::fprintf(stderr, "rank %u: %s: %s\n", group.rank(), what, status.to_string().c_str());
  return 1;
}

Status reduce_until_failure(ProcessGroup& group) {
  std::vector<int32_t> values(200'000);
  Status status;
  while (status.ok()) status = group.run(all_reduce(in_place(values)));
  return status;
}

TEST(Rebirth, SurvivorsOfDeathsGoOnDownToTheLast) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    const auto ends = forked_ranks(4, wire, [](ProcessGroup& group) {
      // The lowest dies each time: the one that leads.
      while (group.size() > 1) {
        Status status = sums_are_right(group);
        if (group.rank() == 0) raise(SIGKILL);
        // The death may cost those that are behind the operation in which it happened.
        if (status.ok()) status = reduce_until_failure(group);
        if (status.code() != StatusCode::peer_lost) return tell(group, "not lost", status);
        if (Status shrunk = group.shrink(); !shrunk.ok()) return tell(group, "shrink", shrunk);
      }
      if (group.epoch() != 4) return tell(group, "wrong epoch", Status());
      if (Status status = sums_are_right(group); !status.ok()) return tell(group, "sums alone", status);
      return 0;
    });
    for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(WIFSIGNALED(ends[rank]) && WTERMSIG(ends[rank]) == SIGKILL);
    EXPECT_EQ(ends[3], 0);
  }
}

TEST(Rebirth, AtomicOperationsAreUndoneWhereARankDies) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    const auto ends = forked_ranks(4, wire, [](ProcessGroup& group) {
      std::vector<int64_t> values(300'000, 1);
      int64_t expected = 1;
      Status status;
      for (int round = 0; status.ok(); ++round) {
        if (group.rank() == 1 && round == 7) {
          std::thread([] { raise(SIGKILL); }).detach();
        }
        status = group.run(all_reduce(in_place(values), ReduceOp::sum, {.atomic = true}));
        if (status.ok()) expected *= 4;
      }
      if (status.code() != StatusCode::peer_lost) return tell(group, "not lost", status);
      for (const int64_t value : values) {
        if (value != expected) return tell(group, "not undone", status);
      }
      if (Status shrunk = group.shrink(); !shrunk.ok()) return tell(group, "shrink", shrunk);
      // All have come as far.
      std::vector<int64_t> most(1);
      if (Status same = group.run(all_reduce(from(&expected, 1), into(most), ReduceOp::maximum)); !same.ok())
        return tell(group, "maximum", same);
      return most[0] == expected ? 0 : tell(group, "not all as far", Status());
    });
    EXPECT_TRUE(WIFSIGNALED(ends[1]));
    for (const Rank rank : {0, 2, 3}) EXPECT_EQ(ends[rank], 0);
  }
}

TEST(Rebirth, DeathsWhileSurvivorsMeetAreMetLikeAnyOther) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    for (int round = 0; round < 6; ++round) {
      const auto ends = forked_ranks(5, wire, [round](ProcessGroup& group) {
        const Rank first = group.rank();
        Status status = sums_are_right(group);
        if (first == 0) raise(SIGKILL);
        if (status.ok()) status = reduce_until_failure(group);
        // The next one that leads dies somewhere in the midst of shrinking.
        if (first == 1) {
          std::thread([round] {
            usleep(static_cast<useconds_t>(50 + 700 * round));
            raise(SIGKILL);
          }).detach();
        }
        for (int tries = 0; tries < 5; ++tries) {
          if (Status shrunk = group.shrink(); !shrunk.ok()) return tell(group, "shrink", shrunk);
          if (first == 1) usleep(100'000);
          status = sums_are_right(group);
          if (status.ok() && group.size() == 3) break;
          if (status.ok()) status = reduce_until_failure(group);
          if (status.code() != StatusCode::peer_lost) return tell(group, "not lost", status);
        }
        if (group.members() != std::vector<Rank>{2, 3, 4}) return tell(group, "wrong members", status);
        return status.ok() ? 0 : tell(group, "sums", status);
      });
      for (const Rank rank : {0, 1}) EXPECT_TRUE(WIFSIGNALED(ends[rank]));
      for (const Rank rank : {2, 3, 4}) EXPECT_EQ(ends[rank], 0);
    }
  }
}

TEST(Rebirth, AMeetingToWhichAMemberDoesNotComeCanBeFollowedByAnother) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    const auto ends = forked_ranks(3, wire, [](ProcessGroup& group) {
      const Rank first = group.rank();
      if (first == 0) raise(SIGKILL);  // also the first rank of the next life
      Membership next;
      next.rank = first;
      next.size = 3;
      next.name = "all of us";
      next.timeout = 300ms;
      const Status missed = group.reconfigure(next);
      if (missed.code() != StatusCode::timeout || missed.ranks() != std::vector<Rank>{0})
        return tell(group, "not missed", missed);
      next.rank = first - 1;
      next.size = 2;
      next.name = "the two of us";
      next.timeout = 10s;
      if (Status met = group.reconfigure(next); !met.ok()) return tell(group, "not met", met);
      if (group.size() != 2) return tell(group, "size", Status());
      const Status sums = sums_are_right(group);
      return sums.ok() ? 0 : tell(group, "sums", sums);
    });
    EXPECT_TRUE(WIFSIGNALED(ends[0]));
    for (const Rank rank : {1, 2}) EXPECT_EQ(ends[rank], 0);
  }
}

TEST(Rebirth, AStoppedRankIsLeftBehindAndToldSo) {
  for (const Wire& wire : kRebirthWires) {
    SCOPED_TRACE(wire.name);
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const auto ends = forked_ranks(
        4, wire,
        [&](ProcessGroup& group) {
          if (group.rank() == 3) {
            const pid_t self = getpid();
            (void)!write(pipe_ends[1], &self, sizeof self);
            raise(SIGSTOP);
            Status status = reduce_until_failure(group);
            if (status.code() != StatusCode::timeout && status.code() != StatusCode::stale_epoch)
              return tell(group, "not told", status);
            status = group.shrink();
            return status.code() == StatusCode::stale_epoch ? 0 : tell(group, "not stale", status);
          }
          pid_t stopped = 0;
          if (group.rank() == 0) (void)!read(pipe_ends[0], &stopped, sizeof stopped);
          const Status status = reduce_until_failure(group);
          if (status.code() != StatusCode::timeout || status.ranks() != std::vector<Rank>{3})
            return tell(group, "not late", status);
          if (Status shrunk = group.shrink(); !shrunk.ok()) return tell(group, "shrink", shrunk);
          if (group.size() != 3 || group.epoch() != 2) return tell(group, "size", Status());
          if (Status sums = sums_are_right(group); !sums.ok()) return tell(group, "sums", sums);
          if (group.rank() == 0) kill(stopped, SIGCONT);
          return 0;
        },
        500ms);
    EXPECT_EQ(ends, std::vector<int>(4, 0));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
}

// Rank 0 is done with the gather, in which rank 1 waits for the rank that was stopped.
TEST(Rebirth, WhoWaitsForAStoppedRankIsNotBlamed) {
  for (const Wire& wire : {kRebirthWires[1], kRebirthWires[2]}) {
    SCOPED_TRACE(wire.name);
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const auto ends = forked_ranks(3, wire, [&](ProcessGroup& group) {
      std::vector<int32_t> mine(10), all(30);
      if (group.rank() == 2) {
        const pid_t self = getpid();
        (void)!write(pipe_ends[1], &self, sizeof self);
        raise(SIGSTOP);
        return 0;
      }
      Status status =
          group.rank() == 1 ? group.run(gather(from(mine), into(all), 1)) : group.run(gather(from(mine), 1));
      if (status.ok()) status = group.run(barrier({.timeout = 500ms}));
      pid_t stopped = 0;
      if (group.rank() == 0) {
        (void)!read(pipe_ends[0], &stopped, sizeof stopped);
        kill(stopped, SIGCONT);
      }
      const bool right = status.code() == StatusCode::timeout && status.ranks() == std::vector<Rank>{2};
      return right ? 0 : tell(group, "blames", status);
    });
    EXPECT_EQ(ends, std::vector<int>(3, 0));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
}

TEST(Rebirth, OneOfTwoDoesNotGoOnWithoutAStoppedOneUnlessTold) {
  for (const Quorum quorum : {Quorum::normal, Quorum::survivors}) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const auto ends = forked_ranks(
        2, kRebirthWires[0],
        [&](ProcessGroup& group) {
          if (group.rank() == 1) {
            const pid_t self = getpid();
            (void)!write(pipe_ends[1], &self, sizeof self);
            raise(SIGSTOP);
            return 0;
          }
          pid_t stopped = 0;
          (void)!read(pipe_ends[0], &stopped, sizeof stopped);
          const Status late = reduce_until_failure(group);
          const Status shrunk = group.shrink({.quorum = quorum});
          kill(stopped, SIGCONT);
          if (late.code() != StatusCode::timeout) return tell(group, "not late", late);
          if (quorum == Quorum::survivors) return shrunk.ok() && group.size() == 1 ? 0 : tell(group, "alone", shrunk);
          return shrunk.code() == StatusCode::no_quorum ? 0 : tell(group, "no quorum", shrunk);
        },
        300ms);
    EXPECT_EQ(ends, std::vector<int>(2, 0));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
}

#endif

}  // namespace
}  // namespace regroup
