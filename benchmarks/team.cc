// SPDX-License-Identifier: Apache-2.0
// What threads of a rank gain, and what it costs to call them in: one rank alone, with as many threads as the last
// argument says. all_reduce of one rank is a fold of one source, all_gather of one rank is a copy.
#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>
#include <vector>

#include "executor/team.h"
#include "regroup/regroup.h"

namespace {

using namespace regroup;

constexpr uint64_t kBytes = 64 << 20;

void in_group_of_one(benchmark::State& state, const Operation& operation, uint64_t bytes) {
  JoinOptions options;
  options.threads = static_cast<uint32_t>(state.range(0));
  const Status ran = run_local(
      1,
      [&](ProcessGroup& group) {
        for (auto _ : state) {
          if (!group.run(operation).ok()) state.SkipWithError("the call failed");
        }
      },
      options);
  if (!ran.ok()) state.SkipWithError("no group");
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

template <typename T>
void fold(benchmark::State& state) {
  const uint64_t bytes = static_cast<uint64_t>(state.range(1));
  const std::vector<T> input(bytes / sizeof(T));
  std::vector<T> output(input.size());
  in_group_of_one(state, all_reduce(from(input), into(output)), bytes);
}

void copy(benchmark::State& state) {
  const uint64_t bytes = static_cast<uint64_t>(state.range(1));
  const std::vector<float> input(bytes / sizeof(float));
  std::vector<float> output(input.size());
  in_group_of_one(state, all_gather(from(input), into(output)), bytes);
}

// Two sources into a third place, as between two ranks, block by block.
void add_two_blocks(benchmark::State& state) {
  executor::Team team(static_cast<unsigned>(state.range(0)));
  const uint64_t bytes = static_cast<uint64_t>(state.range(1));
  std::vector<float> a(kBytes / sizeof(float)), b(a.size()), to(a.size());
  const uint64_t block = bytes / sizeof(float), blocks = a.size() / block;
  uint64_t next = 0;
  for (auto _ : state) {
    const uint64_t begin = next++ % blocks * block;
    team.run(executor::pieces_of(bytes), [&](unsigned, uint32_t piece) {
      const uint64_t at = begin + piece * executor::kTeamPiece / sizeof(float);
      for (uint64_t i = 0; i < executor::kTeamPiece / sizeof(float); ++i) to[at + i] = a[at + i] + b[at + i];
    });
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

// The least that calling the others in costs while they are awake.
void hand_over(benchmark::State& state) {
  executor::Team team(static_cast<unsigned>(state.range(0)));
  for (auto _ : state) team.run(2, [](unsigned, uint32_t) {});
}

// Likewise where they sleep.
void wake(benchmark::State& state) {
  executor::Team team(2);
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto began = std::chrono::steady_clock::now();
    team.run(2, [](unsigned, uint32_t) {});
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
}

BENCHMARK(fold<float>)->ArgsProduct({{1, 2}, {1 << 20, 4 << 20, kBytes}})->UseRealTime();
BENCHMARK(copy)->ArgsProduct({{1, 2}, {1 << 20, 4 << 20, kBytes}})->UseRealTime();
BENCHMARK(add_two_blocks)->ArgsProduct({{1, 2}, {128 << 10, 256 << 10, 512 << 10, 1 << 20}})->UseRealTime();
BENCHMARK(hand_over)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(wake)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
