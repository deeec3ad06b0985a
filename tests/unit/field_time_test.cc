// SPDX-License-Identifier: Apache-2.0
// Faults of time that users of collective libraries have met, tried on this one: late ranks, more ranks than cores,
// many threads. References are to public issues.
#include <gtest/gtest.h>
#include <sched.h>

#include <latch>
#include <mutex>
#include <numeric>

#include "unit/wires.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr Wire kShm = kWires[0], kTcp = kWires[2];

// --- one time-out rule (jax 40831; pytorch pull request 158128)

constexpr Collective kTimed[] = {Collective::barrier,    Collective::broadcast,      Collective::reduce,
                                 Collective::all_reduce, Collective::gather,         Collective::all_gather,
                                 Collective::scatter,    Collective::reduce_scatter, Collective::all_to_all,
                                 Collective::receive};

// Rank 0 of two cannot end this before rank 1 has come.
Operation needs_rank_1(Collective collective, Rank rank, std::vector<int32_t>& x, std::vector<int32_t>& y,
                       const CallOptions& options) {
  switch (collective) {
    case Collective::broadcast:
      return broadcast(in_place(x), 1, options);
    case Collective::reduce:
      return reduce(in_place(x), ReduceOp::sum, 0, options);
    case Collective::all_reduce:
      return all_reduce(in_place(x), ReduceOp::sum, options);
    case Collective::gather:
      return rank == 0 ? gather(from(x), into(y), 0, options) : gather(from(x), 0, options);
    case Collective::all_gather:
      return all_gather(from(x), into(y), options);
    case Collective::scatter:
      return rank == 1 ? scatter(from(y), into(x), 1, options) : scatter(into(x), 1, options);
    case Collective::reduce_scatter:
      return reduce_scatter(from(y), into(x), ReduceOp::sum, options);
    case Collective::all_to_all:
      return all_to_all(in_place(y), options);
    case Collective::receive:
      return rank == 0 ? receive(into(x), 1, 0, options) : send(from(x), 0, 0, options);
    default:
      return barrier(options);
  }
}

// A rank that is late, but by less than the time-out, is no failure, in any collective.
TEST(FieldTime, ALateRankBelowTheTimeOutPasses) {
  on_every_wire(2, [](ProcessGroup& group) {
    for (const Collective collective : kTimed) {
      std::vector<int32_t> x(20000), y(40000);
      if (group.rank() == 1) std::this_thread::sleep_for(25ms);
      check(group.run(needs_rank_1(collective, group.rank(), x, y, {.timeout = 15s})));
    }
  });
}

// One that is later than that is a failure in each of them, at the time-out, and is named.
TEST(FieldTime, ALateRankAboveTheTimeOutIsNamed) {
  for (const Wire& wire : {kShm, kTcp}) {
    for (const Collective collective : kTimed) {
      std::latch over(2);
      on_wires({&wire, 1}, 2, [&](ProcessGroup& group) {
        std::vector<int32_t> x(4), y(8);
        if (group.rank() == 1) return over.arrive_and_wait();
        const auto began = steady_clock::now();
        const Status status = group.run(needs_rank_1(collective, 0, x, y, {.timeout = 60ms}));
        const auto took = steady_clock::now() - began;
        over.arrive_and_wait();
        const std::string what = std::string(name(collective)) + ": ";
        require(status.code() == StatusCode::timeout, what + status.to_string());
        require(status.ranks() == std::vector<Rank>{1}, what + "blames others: " + status.to_string());
        require(took >= 60ms && took < 5s, what + "not at the time-out");
      });
    }
  }
}

// The group's time-out may change while it runs; a call's own goes before it; zero is none.
TEST(FieldTime, TheTimeOutMayChange) {
  for (const Wire& wire : {kShm, kTcp}) {
    std::latch over(2);
    on_wires({&wire, 1}, 2, [&](ProcessGroup& group) {
      require(group.timeout() == 20s, "the time-out of joining");
      require(group.set_timeout(0s).code() == StatusCode::invalid_argument, "zero");
      require(group.set_timeout(-1ms).code() == StatusCode::invalid_argument, "negative");
      require(group.run(barrier({.timeout = 0s})).code() == StatusCode::invalid_argument, "zero for a call");
      check(group.set_timeout(50ms));
      if (group.rank() == 1) std::this_thread::sleep_for(120ms);
      check(group.run(barrier({.timeout = 15s})));
      if (group.rank() == 1) return over.arrive_and_wait();
      const Status status = group.run(barrier());
      over.arrive_and_wait();
      require(status.code() == StatusCode::timeout, "the changed time-out: " + status.to_string());
    });
  }
}

// --- more ranks than cores (ompi 10426)

TEST(FieldTime, EightRanksOnOneCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // the ranks' threads inherit it
  on_every_wire(8, [](ProcessGroup& group) {
    std::vector<int32_t> x(4096), list(8 * 256), out(8 * 256);
    for (int i = 0; i < 25; ++i) {
      check(group.run(barrier()));
      check(group.run(all_reduce(in_place(&x[0], 1))));
      check(group.run(all_reduce(in_place(x))));
      std::fill(list.begin(), list.end(), static_cast<int32_t>(group.rank()));
      check(group.run(all_to_all(from(list), into(out))));
      require(out[0] == 0 && out[8 * 256 - 1] == 7, "all_to_all on one core");
    }
  });
  sched_setaffinity(0, sizeof before, &before);
}

// --- threads that share a group (ucc 979)

struct Threads {
  std::mutex mutex;
  Status first;
  std::vector<std::thread> threads;

  void add(std::function<Status()> body) {
    threads.emplace_back([this, body = std::move(body)] {
      Status status = body();
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
    });
  }
  Status join() {
    for (std::thread& thread : threads) thread.join();
    return first;
  }
};

// A ring under a tag of its own, in a way of its own, until `go_on` says no.
Status ring(ProcessGroup& group, uint32_t tag, const std::function<bool(int)>& go_on) {
  const Rank right = (group.rank() + 1) % group.size(), left = (group.rank() + group.size() - 1) % group.size();
  std::vector<uint32_t> out(1 + 999 * tag), in(out.size());
  for (int i = 0; go_on(i); ++i) {
    std::iota(out.begin(), out.end(), group.rank() * 1000 + tag + static_cast<uint32_t>(i));
    Rank source = left;
    Status status;
    if (tag % 3 == 0) {
      status = group.run(batch({send(from(out), right, tag), receive(into(in), left, tag)}));
    } else if (tag % 3 == 1) {
      Work received = group.start(receive(into(in), left, tag));
      status = group.run(send(from(out), right, tag));
      // `in` is lent until that has ended, however the send ended.
      if (Status other = received.wait(); status.ok()) status = other;
    } else {
      Work sent = group.start(send(from(out), right, tag));
      status = group.run(receive_any(into(in), &source, tag));
      if (Status other = sent.wait(); status.ok()) status = other;
    }
    if (!status.ok()) return status;
    for (size_t at = 0; at < in.size(); ++at) {
      if (source != left || in[at] != left * 1000 + tag + static_cast<uint32_t>(i + at))
        return Status(StatusCode::internal, "wrong data under tag " + std::to_string(tag));
    }
  }
  return Status();
}

TEST(FieldTime, EightThreadsShareAGroup) {
  on_every_wire(2, [](ProcessGroup& group) {
    Threads threads;
    for (uint32_t tag = 0; tag < 7; ++tag)
      threads.add([&group, tag] { return ring(group, tag, [](int i) { return i < 25; }); });
    threads.add([&group] {
      for (int i = 0; i < 25; ++i) {
        std::vector<int32_t> x(i % 2 == 0 ? 3 : 20000, i);
        if (Status status = group.run(all_reduce(in_place(x))); !status.ok()) return status;
        if (x.back() != 2 * i) return Status(StatusCode::internal, "wrong sum");
      }
      return Status();
    });
    check(threads.join());
  });
}

TEST(FieldTime, ANinthThreadAborts) {
  on_every_wire(2, [](ProcessGroup& group) {
    Threads threads;
    const auto forever = [](int) { return true; };
    for (uint32_t tag = 0; tag < 8; ++tag) threads.add([&group, tag, forever] { return ring(group, tag, forever); });
    if (group.rank() == 1) {
      std::this_thread::sleep_for(50ms);
      group.abort("the ninth thread has enough");
      group.abort("twice");
    }
    const Status status = threads.join();
    require(status.code() == StatusCode::aborted, status.to_string());
    require(group.run(barrier()).code() == StatusCode::aborted, "a call after it");
    require(group.last_failure().code() == StatusCode::aborted, "last_failure");
  });
}

}  // namespace
}  // namespace regroup
