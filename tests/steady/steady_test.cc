// SPDX-License-Identifier: Apache-2.0
// What a call costs once its group is warm, in what can be counted: allocations, system calls, page faults. Two ranks,
// as processes and as threads. Times are not looked at, and a busy machine only makes the test longer: a rank that has
// to wait for a core yields and sleeps, so what counts is the cheapest of many batches of calls.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <ostream>
#include <vector>

#include "regroup/regroup.h"
#include "steady/gauges.h"

namespace regroup::steady {
namespace {

constexpr Rank kRanks = 2;
constexpr int kWarmUp = 10;
constexpr int kMostBatches = 1000;

// Of one call. Reads of a peer's ordinary memory are system calls, but counted apart.
struct Cost {
  double allocations = 0, calls = 0, reads = 0, faults = 0;
};
// Calls of milliseconds are always interrupted on a busy machine, and the other rank yields: those are not looked at.
constexpr double kAny = 1e9;
constexpr Cost kLong{.calls = kAny};
// The operation's own copy, and what its Work refers to. No system call: whoever comes last wakes no thread.
constexpr Cost kStarted{.allocations = 4};
// A list is copied into the request: where the pieces are and how long, of both sides, and twice more to see whether
// they overlap. Who prepares the operation does that once.
constexpr Cost kList{.allocations = 6};
// Ordinary memory of another process is read in blocks: 64 KB at a time where it is folded, 128 KB of the other's half
// of the result, 256 KB where it is only copied.
constexpr Cost reads_of_all_reduce(uint64_t bytes) {
  return {.calls = bytes > (4 << 20) ? kAny : 0,
          .reads = static_cast<double>(bytes / 2 / (64 << 10) + bytes / 2 / (128 << 10))};
}
constexpr Cost reads_of_all_to_all(uint64_t bytes) {
  return {.calls = bytes > (4 << 20) ? kAny : 0, .reads = static_cast<double>(bytes / 2 / (256 << 10))};
}
constexpr Cost operator+(const Cost& a, const Cost& b) {
  return {a.allocations + b.allocations, a.calls + b.calls, a.reads + b.reads, a.faults + b.faults};
}

struct Memory {
  std::byte *input, *output;
  uint64_t bytes;

  Buffer buffer(std::byte* data) const { return Buffer{data, DataType::float32, bytes / 4}; }
  // One part a rank.
  std::vector<Buffer> list(std::byte* data) const {
    std::vector<Buffer> parts;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      parts.emplace_back(data + rank * bytes / kRanks, DataType::float32, bytes / kRanks / 4);
    }
    return parts;
  }
};

struct Case {
  const char* name;
  Operation (*operation)(const Memory&);
  uint64_t bytes;
  bool mapped;
  int calls;  // a batch
  Cost most;
  enum How { run, prepared, started } how = run;
};

Operation make_barrier(const Memory&) { return barrier(); }
Operation make_broadcast(const Memory& m) { return broadcast(in_place(m.buffer(m.output)), 1); }
Operation make_all_reduce(const Memory& m) { return all_reduce(from(m.buffer(m.input)), into(m.buffer(m.output))); }
Operation make_all_reduce_in_place(const Memory& m) { return all_reduce(in_place(m.buffer(m.output))); }
Operation make_all_to_all(const Memory& m) { return all_to_all(from(m.buffer(m.input)), into(m.buffer(m.output))); }
Operation make_all_to_all_in_place(const Memory& m) { return all_to_all(in_place(m.buffer(m.output))); }
Operation make_all_to_all_list(const Memory& m) { return all_to_all(from(m.list(m.input)), into(m.list(m.output))); }

constexpr uint64_t KB = 1024, MB = 1024 * KB;

const Case kCases[] = {
    {"barrier", make_barrier, 0, false, 100, {}},
    {"all_reduce_8", make_all_reduce, 8, false, 100, {}},
    {"all_reduce_8_prepared", make_all_reduce, 8, false, 100, {}, Case::prepared},
    {"all_reduce_8_started", make_all_reduce, 8, false, 1, kStarted, Case::started},
    {"all_reduce_4K", make_all_reduce, 4 * KB, false, 100, {}},
    {"all_reduce_4K_mapped", make_all_reduce, 4 * KB, true, 100, {}},
    {"all_to_all_16", make_all_to_all, 16, false, 100, {}},
    {"broadcast_4K", make_broadcast, 4 * KB, false, 100, {}},
    {"all_reduce_64K", make_all_reduce, 64 * KB, false, 10, {}},
    {"all_reduce_64K_mapped", make_all_reduce, 64 * KB, true, 10, {}},
    {"all_reduce_1M_mapped", make_all_reduce, MB, true, 1, {}},
    {"all_reduce_1M_mapped_in_place", make_all_reduce_in_place, MB, true, 1, {}},
    {"all_reduce_1M_mapped_prepared", make_all_reduce, MB, true, 1, {}, Case::prepared},
    {"all_reduce_1M", make_all_reduce, MB, false, 1, reads_of_all_reduce(MB)},
    {"broadcast_1M_mapped", make_broadcast, MB, true, 1, {}},
    {"all_to_all_1M_mapped", make_all_to_all, MB, true, 1, {}},
    {"all_to_all_1M_mapped_in_place", make_all_to_all_in_place, MB, true, 1, {}},
    {"all_to_all_list_1M_mapped", make_all_to_all_list, MB, true, 1, kList},
    {"all_to_all_list_1M_mapped_prepared", make_all_to_all_list, MB, true, 1, {}, Case::prepared},
    {"all_to_all_list_1M", make_all_to_all_list, MB, false, 1, kList + reads_of_all_to_all(MB)},
    {"all_reduce_16M_mapped", make_all_reduce, 16 * MB, true, 1, kLong},
    {"all_reduce_16M", make_all_reduce, 16 * MB, false, 1, reads_of_all_reduce(16 * MB)},
    {"all_to_all_16M_mapped", make_all_to_all, 16 * MB, true, 1, kLong},
    {"all_to_all_16M", make_all_to_all, 16 * MB, false, 1, reads_of_all_to_all(16 * MB)},
};

// What one rank reports.
struct Report {
  int batches;
  Cost least;  // of the cheapest batch; allocations, which do not depend on who comes first: of the dearest
};

bool within(const Cost& cost, const Cost& most) {
  return cost.calls <= most.calls && cost.reads <= most.reads && cost.faults <= most.faults;
}

class Measurement {
 public:
  Measurement(const Case& what, ProcessGroup& group, const SystemCalls* calls, Report& report)
      : what_(what), group_(group), calls_(calls), report_(report) {}

  void run() {
    take_memory();
    const Operation operation = what_.operation({input_, output_, what_.bytes});
    Prepared prepared = group_.prepare(operation).value_or_throw();
    const auto call = [&] {
      check(what_.how == Case::prepared  ? prepared.run()
            : what_.how == Case::started ? group_.start(operation).wait()
                                         : group_.run(operation));
    };
    for (int i = 0; i < kWarmUp; ++i) call();
    for (report_.batches = 1; report_.batches < kMostBatches; ++report_.batches) {
      count(call);
      std::vector<int32_t> go_on = {!within(report_.least, what_.most)};
      check(group_.run(all_reduce(in_place(go_on), ReduceOp::maximum)));
      if (go_on[0] == 0) break;
    }
  }

 private:
  void take_memory() {
    const uint64_t bytes = std::max<uint64_t>(what_.bytes, 8);
    if (what_.mapped) {
      allocations_[0] = allocate(bytes).value_or_throw();
      allocations_[1] = allocate(bytes).value_or_throw();
    } else {
      ordinary_[0].resize(bytes);
      ordinary_[1].resize(bytes);
    }
    input_ = what_.mapped ? allocations_[0].data() : ordinary_[0].data();
    output_ = what_.mapped ? allocations_[1].data() : ordinary_[1].data();
  }

  template <typename Call>
  void count(const Call& call) {
    check(group_.run(barrier()));
    const uint64_t faults = page_faults();
    const uint64_t calls = calls_ != nullptr ? calls_->all() : 0;
    const uint64_t reads = calls_ != nullptr ? calls_->of(SYS_process_vm_readv) : 0;
    const uint64_t allocated = allocations();
    for (int i = 0; i < what_.calls; ++i) call();
    const auto each = [&](uint64_t now, uint64_t before) { return static_cast<double>(now - before) / what_.calls; };
    Cost cost;
    cost.allocations = each(allocations(), allocated);
    cost.reads = calls_ != nullptr ? each(calls_->of(SYS_process_vm_readv), reads) : 0;
    cost.calls = calls_ != nullptr ? each(calls_->all(), calls) - cost.reads : 0;
    cost.faults = each(page_faults(), faults);
    Cost& least = report_.least;
    const bool first = report_.batches == 1;
    least.allocations = std::max(least.allocations, cost.allocations);
    least.calls = first ? cost.calls : std::min(least.calls, cost.calls);
    least.reads = first ? cost.reads : std::min(least.reads, cost.reads);
    least.faults = first ? cost.faults : std::min(least.faults, cost.faults);
  }

  const Case& what_;
  ProcessGroup& group_;
  const SystemCalls* calls_;
  Report& report_;
  std::vector<std::byte> ordinary_[2];
  Allocation allocations_[2];
  std::byte *input_ = nullptr, *output_ = nullptr;
};

void expect_within(const Report& report, const Cost& most) {
  const Cost& cost = report.least;
  EXPECT_LE(cost.allocations, most.allocations);
  EXPECT_LE(cost.calls, most.calls) << "after " << report.batches << " batches";
  EXPECT_LE(cost.reads, most.reads);
  EXPECT_LE(cost.faults, most.faults) << "after " << report.batches << " batches";
}

// A core for each rank, so that they run at the same time at least now and then, whatever else the machine does. False
// where there are not enough cores: waiting is yielding then.
bool take_core(Rank rank) {
  cpu_set_t allowed, mine;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < static_cast<int>(kRanks)) {
    return false;
  }
  CPU_ZERO(&mine);
  for (int core = 0, before = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && before++ == static_cast<int>(rank)) CPU_SET(core, &mine);
  }
  return ::sched_setaffinity(0, sizeof mine, &mine) == 0;
}

class Steady : public testing::TestWithParam<Case> {};

TEST_P(Steady, Processes) {
  void* memory = ::mmap(nullptr, sizeof(Report) * kRanks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Report* reports = new (memory) Report[kRanks]{};
  const auto body = [&](ProcessGroup& group) {
    SystemCalls calls;
    const bool counted = take_core(group.rank()) && calls.counting();
    Measurement(GetParam(), group, counted ? &calls : nullptr, reports[group.rank()]).run();
    return 0;
  };
  const Status status = run_forked(kRanks, body, {.timeout = std::chrono::seconds(60), .transport = "shm"});
  EXPECT_TRUE(status.ok()) << status.to_string();
  for (Rank rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    expect_within(reports[rank], GetParam().most);
  }
  ::munmap(memory, sizeof(Report) * kRanks);
}

TEST_P(Steady, Threads) {
  Report reports[kRanks] = {};
  const auto body = [&](ProcessGroup& group) { Measurement(GetParam(), group, nullptr, reports[group.rank()]).run(); };
  const Status status = run_local(kRanks, body, {.timeout = std::chrono::seconds(60), .transport = "shm"});
  EXPECT_TRUE(status.ok()) << status.to_string();
  for (Rank rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    expect_within(reports[rank], GetParam().most);
  }
}

// For messages.
void PrintTo(const Case& what, std::ostream* to) { *to << what.name; }

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Costs, Steady, testing::ValuesIn(kCases), name_of);

// What measures is not blind.
TEST(Gauges, SeeWhatTheyCount) {
  const uint64_t before = allocations();
  delete new int;  // NOLINT: nothing but the allocation
  void* volatile memory = ::operator new(64, std::align_val_t(64));
  ::operator delete(memory, std::align_val_t(64));
  EXPECT_GE(allocations() - before, 1u);

  const uint64_t faults = page_faults();
  void* pages = ::mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 1, 1 << 16);
  EXPECT_GT(page_faults(), faults);
  ::munmap(pages, 1 << 16);

  SystemCalls calls;
  if (!calls.counting()) GTEST_SKIP() << "nobody may be traced here: system calls are not counted";
  const uint64_t yields = calls.of(SYS_sched_yield), all = calls.all();
  for (int i = 0; i < 3; ++i) ::sched_yield();
  EXPECT_EQ(calls.of(SYS_sched_yield) - yields, 3u);
  EXPECT_EQ(calls.all() - all, 3u);
  EXPECT_EQ(calls.of(SYS_process_vm_readv), 0u);
}

}  // namespace
}  // namespace regroup::steady
