// SPDX-License-Identifier: Apache-2.0
// The library's own share of a small call, checks included: a group of one rank has nobody to wait for.
#include <benchmark/benchmark.h>

#include <vector>

#include "regroup/regroup.h"

namespace {

using namespace regroup;

void in_group_of_one(benchmark::State& state, const Operation& operation) {
  const Status ran = run_local(1, [&](ProcessGroup& group) {
    for (auto _ : state) {
      if (!group.run(operation).ok()) state.SkipWithError("the call failed");
    }
  });
  if (!ran.ok()) state.SkipWithError("no group");
}

void all_reduce_of_8_bytes(benchmark::State& state) {
  const std::vector<float> input(2, 1.0f);
  std::vector<float> output(2);
  in_group_of_one(state, all_reduce(from(input), into(output)));
}
BENCHMARK(all_reduce_of_8_bytes);

void all_reduce_of_8_bytes_made_anew(benchmark::State& state) {
  const std::vector<float> input(2, 1.0f);
  std::vector<float> output(2);
  const Status ran = run_local(1, [&](ProcessGroup& group) {
    for (auto _ : state) {
      if (!group.run(all_reduce(from(input), into(output))).ok()) state.SkipWithError("the call failed");
    }
  });
  if (!ran.ok()) state.SkipWithError("no group");
}
BENCHMARK(all_reduce_of_8_bytes_made_anew);

void barrier_of_one(benchmark::State& state) { in_group_of_one(state, barrier()); }
BENCHMARK(barrier_of_one);

}  // namespace

BENCHMARK_MAIN();
