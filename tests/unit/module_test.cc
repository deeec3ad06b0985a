// SPDX-License-Identifier: Apache-2.0
// Groups over a module: what a good one carries, and what is said of those that keep no rules.
#include "module/module.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <numeric>

#include "unit/forked_ranks.h"
#include "unit/wires.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

class Modules : public testing::Test {
 protected:
  void SetUp() override {
    if (!kForks) GTEST_SKIP() << "a module is tried out in a forked child";
    setenv("REGROUP_MODULES", REGROUP_TEST_MODULES, 1);
  }
  void TearDown() override { unsetenv("REGROUP_MODULES"); }
};

// What `size` ranks, threads, come to over a backend.
template <typename Body>
std::vector<Status> over(const std::string& backend, Rank size, const Body& body,
                         std::chrono::nanoseconds timeout = 20s) {
  const auto store = make_hash_store();
  std::vector<Status> statuses(size);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      JoinOptions options = options_for(kWires[0], rank, size, timeout);
      options.store = store;
      options.backend = backend;
      Result<ProcessGroup> group = join(options);
      statuses[rank] = group.ok() ? body(*group) : group.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST_F(Modules, CarryCollectivesByMessages) {
  const auto statuses = over("mailbox", 3, [](ProcessGroup& group) {
    EXPECT_EQ(group.description(), "mailbox 1.0 (native over shm)");
    std::vector<int64_t> values(1000);
    std::iota(values.begin(), values.end(), group.rank());
    if (Status status = group.run(all_reduce(in_place(values))); !status.ok()) return status;
    for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], 3 * i + 3);
    // Parts of sizes that only their owners know.
    std::vector<uint8_t> out(6, static_cast<uint8_t>(group.rank())), in(3 * (group.rank() + 1));
    Status status = group.run(all_to_all(from(out), into(in), {1, 2, 3}, Counts(3, group.rank() + 1)));
    for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(in[i], i / (group.rank() + 1));
    return status;
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Modules, TellMismatchesAsAnyGroupDoes) {
  const auto statuses = over("mailbox", 2, [](ProcessGroup& group) {
    std::vector<float> values(group.rank() == 0 ? 10 : 11);
    const Status status = group.run(all_reduce(in_place(values)));
    EXPECT_EQ(status.code(), StatusCode::mismatch) << status.to_string();
    // Sizes by pair.
    const Counts takes = group.rank() == 0 ? Counts{1, 1} : Counts{2, 1};
    std::vector<float> out(2), in(group.rank() + 2);
    const Status pairs = group.run(all_to_all(from(out), into(in), {1, 1}, takes));
    EXPECT_EQ(pairs.code(), StatusCode::mismatch) << pairs.to_string();
    return group.run(barrier());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Modules, AreShrunkSplitAndMadeAnew) {
  const auto statuses = over("mailbox", 3, [](ProcessGroup& group) {
    auto part = group.split(group.rank() % 2);
    if (!part.ok()) return part.status();
    EXPECT_EQ(part->description(), "mailbox 1.0 (native over shm)");
    std::vector<int32_t> values(100, 1);
    if (Status status = part->run(all_reduce(in_place(values))); !status.ok()) return status;
    EXPECT_EQ(values[99], static_cast<int32_t>(part->size()));
    if (group.rank() == 1) return group.leave();
    if (Status status = group.shrink(); !status.ok()) return status;
    EXPECT_EQ(group.size(), 2u);
    values.assign(100, 2);
    if (Status status = group.run(all_reduce(in_place(values))); !status.ok()) return status;
    EXPECT_EQ(values[0], 4);
    return Status();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Modules, ThatKeepNoRulesAreNamed) {
  const std::pair<const char*, const char*> expected[] = {
      {"crashing", "it crashed when it was loaded (signal 6)"},
      {"exiting", "it ended the process that loaded it"},
      {"newer", "it does not know version 1 of the module interface"},
      {"garbled", "its capabilities make no sense"},
      {"missing", "its library is not installed"},
      {"absent", "there is no regroup-absent.so in"},
      {"../mailbox", "there is no"},
  };
  for (const auto& [name, reason] : expected) {
    const Status status = module::Module::load(name).status();
    EXPECT_EQ(status.code(), StatusCode::unsupported) << name;
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
  for (const Availability& known : module::known_modules()) {
    const bool good = known.name == "mailbox" || known.name == "failing" || known.name == "hanging";
    if (known.name == "crashing" || good) {
      EXPECT_EQ(known.available, good) << known.name << ": " << known.reason;
      EXPECT_EQ(known.reason.empty(), good) << known.name;
    }
  }
}

TEST_F(Modules, AFailureOfTheLibraryBreaksTheGroupAndIsTold) {
  const auto statuses = over("failing", 2, [](ProcessGroup& group) { return group.run(barrier()); });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::io_error) << status.to_string();
    EXPECT_NE(status.message().find("failing failed: the wire is cut"), std::string::npos) << status.message();
  }
}

TEST_F(Modules, ALibraryThatHangsEndsAtTheDeadline) {
  const auto statuses = over("hanging", 2, [](ProcessGroup& group) {
    const Status status = group.run(barrier({.timeout = 500ms}));
    EXPECT_EQ(status.code(), StatusCode::timeout) << status.to_string();
    EXPECT_NE(status.message().find("all ranks came"), std::string::npos) << status.message();
    return group.run(barrier());
  });
  for (const Status& status : statuses) EXPECT_EQ(status.code(), StatusCode::timeout) << status.to_string();
}

TEST_F(Modules, AnAbortEndsWhatTheLibraryRuns) {
  const auto statuses = over("hanging", 2, [](ProcessGroup& group) {
    Work work = group.start(barrier());
    if (group.rank() == 0) group.abort("enough");
    return work.wait();
  });
  for (const Status& status : statuses) EXPECT_EQ(status.code(), StatusCode::aborted) << status.to_string();
}

TEST_F(Modules, AllRanksNameTheSame) {
  const auto store = make_hash_store();
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      JoinOptions options = options_for(kWires[0], rank, 2, 10s);
      options.store = store;
      options.backend = rank == 0 ? "native" : "mailbox";
      statuses[rank] = join(options).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.to_string();
}

}  // namespace
}  // namespace regroup
