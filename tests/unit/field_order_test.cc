// SPDX-License-Identifier: Apache-2.0
// Faults of order that users of collective libraries have met, tried on this one: calls that do not match,
// messages to oneself, groups beside each other. References are to public issues.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "unit/wires.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// All ranks add: proof that they are in step.
void require_in_step(ProcessGroup& group, const std::string& after) {
  std::vector<int32_t> one = {1};
  check(group.run(all_reduce(in_place(one))));
  require(one[0] == static_cast<int32_t>(group.size()), "wrong sum after " + after);
}

// --- calls that do not match (nccl 1394, 1417; gloo pull request 456)

struct Disagreement {
  const char* what;
  std::vector<const char*> says;  // words of which the message has to have one
  std::function<Operation(bool odd, std::vector<float>& x, std::vector<float>& y)> make;
};

const std::vector<Disagreement>& disagreements() {
  static const std::vector<Disagreement> list = {
      {"counts",
       {"of 5 float32", "of 39999 float32"},
       [](bool odd, auto& x, auto&) { return all_reduce(in_place(x.data(), x.size() - odd)); }},
      {"types of equal width",
       {"int32"},
       [](bool odd, auto& x, auto&) {
         return all_reduce(in_place(Buffer(x.data(), odd ? DataType::int32 : DataType::float32, x.size())));
       }},
      {"operators",
       {"maximum"},
       [](bool odd, auto& x, auto&) { return all_reduce(in_place(x), odd ? ReduceOp::maximum : ReduceOp::sum); }},
      {"roots", {"root"}, [](bool odd, auto& x, auto&) { return broadcast(in_place(x), odd ? 2 : 0); }},
      {"roots of reduce",
       {"root"},
       [](bool odd, auto& x, auto&) { return reduce(in_place(x), ReduceOp::sum, odd ? 2 : 0); }},
      {"collectives",
       {"all_gather"},
       [](bool odd, auto& x, auto& y) { return odd ? all_gather(from(x), into(y)) : all_reduce(in_place(x)); }},
      {"a barrier and a sum",
       {"barrier"},
       [](bool odd, auto& x, auto&) { return odd ? barrier() : all_reduce(in_place(x)); }},
  };
  return list;
}

// What the ranks of one trial are told.
struct Told {
  const Disagreement& of;
  Rank odd;
  int64_t times = 0;

  void look(const Status& status) {
    if (status.ok()) return;
    require(status.code() == StatusCode::mismatch, std::string(of.what) + ": " + status.to_string());
    ++times;
    const auto says = [&](const std::string& text) { return status.message().find(text) != std::string::npos; };
    require(says("rank " + std::to_string(odd)), std::string(of.what) + ": does not say who: " + status.message());
    // A rank that hears of it from another one, late, may know only the other's half.
    bool what = says("something else");
    for (const char* word : of.says) what |= says(word);
    require(what, std::string(of.what) + ": does not say what: " + status.message());
  }
};

// The call fails with `mismatch` on every rank, soon; a rank that had what it needed may have returned, and is told of
// it at a later call, which then fails for all. Every message names the odd rank and what was called.
TEST(FieldOrder, CallsThatDoNotMatch) {
  constexpr Rank kOdd = 1;
  on_every_wire(3, [&](ProcessGroup& group) {
    for (const Disagreement& disagreement : disagreements()) {
      for (const uint64_t count : {6, 40000}) {
        std::vector<float> x(count), y(3 * count);
        const auto began = steady_clock::now();
        Told told{disagreement, kOdd};
        told.look(group.run(disagreement.make(group.rank() == kOdd, x, y)));
        // Until a sum tells that all were told; being a sum, it ends this loop on all ranks alike.
        int64_t ranks_told[] = {0};
        for (int call = 0; call < 20 && ranks_told[0] != group.size(); ++call) {
          ranks_told[0] = told.times > 0;
          told.look(group.run(all_reduce(in_place(ranks_told))));
        }
        require(ranks_told[0] == group.size(), std::string(disagreement.what) + ": not all ranks were told");
        require(steady_clock::now() - began < group.timeout() / 4, std::string(disagreement.what) + ": told late");
      }
    }
  });
}

// The same kind: two started calls in another order on one rank. Both fail everywhere; none waits for the other.
TEST(FieldOrder, StartedCallsInAnotherOrder) {
  on_every_wire(3, [](ProcessGroup& group) {
    for (const uint64_t count : {4, 50000}) {
      std::vector<float> x(count, 1.0f), y(count + 1, 1.0f);
      const auto began = steady_clock::now();
      const bool odd = group.rank() == 2;
      Work first = group.start(all_reduce(in_place(odd ? y : x)));
      Work second = group.start(all_reduce(in_place(odd ? x : y)));
      for (Work* work : {&first, &second}) {
        const Status status = work->wait();
        require(status.code() == StatusCode::mismatch, status.to_string());
        require(status.message().find("rank 2") != std::string::npos, "does not say who: " + status.message());
      }
      require(steady_clock::now() - began < group.timeout() / 4, "told late");
      require_in_step(group, "calls in another order");
    }
  });
}

// --- to oneself, and alone (pytorch 106164, 83912; gloo 209)

TEST(FieldOrder, MessagesToOneselfInBothOrders) {
  for (const Rank size : {1, 2}) {
    on_every_wire(size, [](ProcessGroup& group) {
      const Rank me = group.rank();
      for (const uint64_t count : {0, 1, 100000}) {
        std::vector<int32_t> a(count, 3), b(count), c(count, 4), d(count);
        Work sent = group.start(send(from(a), me, 7));
        check(group.run(receive(into(b), me, 7)));
        check(sent.wait());
        Work received = group.start(receive(into(b), me, 8));
        check(group.run(send(from(c), me, 8)));
        check(received.wait());
        require(b == c, "receive first");
        // Two messages, taken in the other order.
        Work one = group.start(send(from(a), me, 1)), two = group.start(send(from(c), me, 2));
        check(group.run(receive(into(d), me, 2)));
        check(group.run(receive(into(b), me, 1)));
        require(b == a && d == c, "by tag");
        check(one.wait());
        check(two.wait());
      }
    });
  }
}

TEST(FieldOrder, TaggedMessagesInReverseOrder) {
  on_every_wire(2, [](ProcessGroup& group) {
    for (const uint64_t count : {1, 200000}) {
      std::array<std::vector<int32_t>, 2> sent, got;
      for (int i = 0; i < 2; ++i) {
        sent[i].assign(count, i + 1);
        got[i].resize(count);
      }
      if (group.rank() == 0) {
        Work first = group.start(send(from(sent[0]), 1, 1)), second = group.start(send(from(sent[1]), 1, 2));
        check(first.wait());
        check(second.wait());
      } else {
        check(group.run(receive(into(got[1]), 0, 2)));
        check(group.run(receive(into(got[0]), 0, 1)));
        require(got == sent, "wrong message");
      }
    }
    require_in_step(group, "messages in reverse order");
  });
}

TEST(FieldOrder, EverythingAlone) {
  on_every_wire(1, [](ProcessGroup& group) {
    const std::vector<double> given = {1.5, -2, 3};
    const auto yields = [&](const char* what, auto make) {
      std::vector<double> out(3, -1);
      check(group.run(make(out)));
      require(out == given, what);
    };
    yields("all_reduce", [&](auto& out) { return all_reduce(from(given), into(out), ReduceOp::average); });
    yields("reduce", [&](auto& out) { return reduce(from(given), into(out), ReduceOp::product, 0); });
    yields("broadcast", [&](auto& out) { return broadcast(from(given), into(out), 0); });
    yields("all_gather", [&](auto& out) { return all_gather(from(given), into(out)); });
    yields("gather", [&](auto& out) { return gather(from(given), into(out), {3}, 0); });
    yields("scatter", [&](auto& out) { return scatter(from(given), into(out), 0); });
    yields("reduce_scatter", [&](auto& out) { return reduce_scatter(from(given), into(out), ReduceOp::minimum); });
    yields("all_to_all", [&](auto& out) { return all_to_all(from(given), into(out), {3}, {3}); });
    yields("batch", [&](auto& out) { return batch({send(from(given), 0), receive(into(out), 0), barrier()}); });
    Rank source = 9;
    yields("receive_any", [&](auto& out) { return batch({send(from(given), 0), receive_any(into(out), &source)}); });
    require(source == 0, "source");
    auto same = group.split(5).value_or_throw();
    require(same.size() == 1 && same.members() == std::vector<Rank>{0}, "split");
    check(same.run(barrier()));
  });
}

// --- groups beside each other (transformers 48302)

TEST(FieldOrder, DisjointGroupsAtOnce) {
  on_every_wire(4, [](ProcessGroup& group) {
    const Rank half = group.rank() / 2;
    for (int round = 0; round < 3; ++round) {
      ProcessGroup pair = group.subgroup({2 * half, 2 * half + 1}).value_or_throw();
      // Each half goes at its own pace.
      for (Rank i = 0; i < 10 * (1 + half); ++i) require_in_step(pair, "creation");
    }
    require_in_step(group, "its halves");
  });
}

TEST(FieldOrder, OverlappingGroupsFromTwoThreadsInOppositeOrder) {
  on_every_wire(3, [](ProcessGroup& group) {
    // Every rank is in both; ranks make them, and use them, in opposite orders.
    const auto use = [&group](std::vector<Rank> ranks, uint64_t count, Status* status) {
      Result<ProcessGroup> made = group.subgroup(ranks);
      *status = made.status();
      std::vector<int64_t> x(count, 1);
      for (int64_t i = 0, expected = 3; i < 12 && status->ok(); ++i, expected *= 3) {
        *status = made->run(all_reduce(in_place(x)));
        if (status->ok() && x[count - 1] != expected) *status = Status(StatusCode::internal, "wrong sum");
      }
    };
    Status a, b;
    const bool reversed = group.rank() % 2 == 1;
    std::thread one([&] { reversed ? use({2, 1, 0}, 20000, &b) : use({0, 1, 2}, 10, &a); });
    std::thread two([&] { reversed ? use({0, 1, 2}, 10, &a) : use({2, 1, 0}, 20000, &b); });
    one.join();
    two.join();
    check(a);
    check(b);
    // One thread, two groups: what is started in the opposite order never waits for the other group.
    ProcessGroup first = group.split(0).value_or_throw(), second = group.split(0).value_or_throw();
    std::vector<int32_t> x(30000, 1), y(30000, 1);
    Work work[2];
    for (const int turn : {0, 1}) {
      const bool at_first = (turn == 0) != reversed;
      work[at_first] = at_first ? first.start(all_reduce(in_place(x))) : second.start(all_reduce(in_place(y)));
    }
    for (Work& each : work) check(each.wait());
    require(x[29999] == 3 && y[29999] == 3, "wrong sum");
  });
}

}  // namespace
}  // namespace regroup
