// SPDX-License-Identifier: Apache-2.0
// What outliving members costs, on this host: an agreement, an atomic all_reduce against a plain one, and shrinking
// after a member has left. Rank 0's times, medians over calls; ranks are processes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "regroup/regroup.h"

namespace {

using namespace regroup;
using Clock = std::chrono::steady_clock;

double median_us(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <typename Call>
double timed_us(int calls, const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < calls + calls / 10; ++i) {
    const auto began = Clock::now();
    check(call());
    if (i >= calls / 10) times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  return median_us(times);
}

int agreements(ProcessGroup& group) {
  const double us = timed_us(500, [&] { return group.agree(~uint64_t{0}).status(); });
  if (group.rank() == 0) std::printf("%u ranks: agree %.0f us\n", group.size(), us);
  return 0;
}

int prices(ProcessGroup& group) {
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{64} << 10, uint64_t{1} << 20, uint64_t{64} << 20}) {
    auto memory = allocate(bytes);
    check(memory.status());
    const Buffer buffer{memory->data(), DataType::float32, bytes / sizeof(float)};
    const int calls = bytes > (1 << 20) ? 20 : 200;
    double us[2];
    for (const bool atomic : {false, true}) {
      us[atomic] = timed_us(
          calls, [&] { return group.run(all_reduce(in_place(buffer), ReduceOp::maximum, {.atomic = atomic})); });
    }
    if (group.rank() == 0)
      std::printf("%u ranks, all_reduce of %llu bytes, mapped, in place: plain %.1f us, atomic %.1f us: %.2f times\n",
                  group.size(), static_cast<unsigned long long>(bytes), us[0], us[1], us[1] / us[0]);
  }
  return 0;
}

// The highest rank goes, again and again.
int departures(ProcessGroup& group) {
  while (group.size() > 1) {
    check(group.run(barrier()));
    if (group.rank() == group.size() - 1) {
      check(group.leave());
      return 0;
    }
    const auto began = Clock::now();
    check(group.shrink());
    check(group.run(barrier()));
    if (group.rank() == 0)
      std::printf("%u ranks are left: shrink and a barrier %.2f ms\n", group.size(),
                  std::chrono::duration<double, std::milli>(Clock::now() - began).count());
  }
  return 0;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Status status;
  for (const Rank size : {2u, 4u, 8u}) {
    if (status.ok()) status = run_forked(size, agreements);
  }
  for (const Rank size : {2u, 4u}) {
    if (status.ok()) status = run_forked(size, prices);
  }
  if (status.ok()) status = run_forked(8, departures);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
