// SPDX-License-Identifier: Apache-2.0
// How much of a core a rank uses while it is blocked in a collective: the last rank comes a second late, and meanwhile
// reads the CPU clocks of the others' processes, with all threads that the library has there.
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "regroup/regroup.h"

namespace {

using namespace regroup;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr Rank kMostRanks = 4;
constexpr auto kUntilAsleep = 10ms, kLate = 1000ms;

double cpu_ms(pid_t process) {
  clockid_t clock;
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// The used time of the rank that used most, in the first 10 ms and from then on.
struct Use {
  double first_ms = 0, later_ms = 0, later_wall_ms = 0;
};

Use watch(const pid_t* processes, Rank count) {
  std::vector<double> begin(count), asleep(count);
  for (Rank rank = 0; rank < count; ++rank) begin[rank] = cpu_ms(processes[rank]);
  std::this_thread::sleep_for(kUntilAsleep);
  for (Rank rank = 0; rank < count; ++rank) asleep[rank] = cpu_ms(processes[rank]);
  const Steady::time_point from = Steady::now();
  std::this_thread::sleep_for(kLate);
  Use use;
  for (Rank rank = 0; rank < count; ++rank) {
    use.first_ms = std::max(use.first_ms, asleep[rank] - begin[rank]);
    use.later_ms = std::max(use.later_ms, cpu_ms(processes[rank]) - asleep[rank]);
  }
  use.later_wall_ms = std::chrono::duration<double, std::milli>(Steady::now() - from).count();
  return use;
}

int take_part(ProcessGroup& group, const char* transport, pid_t* processes) {
  const Rank rank = group.rank(), last = group.size() - 1;
  processes[rank] = ::getpid();
  std::vector<float> few(2, 1.0f), many(1 << 18, 1.0f), output(1 << 18);
  const std::pair<const char*, Operation> operations[] = {
      {"barrier", barrier()},
      {"all_reduce 8 B", all_reduce(in_place(few))},
      {"all_reduce 1 MB", all_reduce(from(many), into(output))},
      {"all_to_all 1 MB", all_to_all(from(many), into(output))},
  };
  for (const auto& [what, operation] : operations) {
    if (!group.run(operation).ok() || !group.run(barrier()).ok()) return 1;
    if (rank == last) {
      const Use use = watch(processes, last);
      std::printf("%-4s %u ranks  %-16s %7.2f ms in the first %d ms, then %6.3f %% of a core\n", transport,
                  group.size(), what, use.first_ms, static_cast<int>(kUntilAsleep.count()),
                  use.later_ms / use.later_wall_ms * 100);
    }
    if (!group.run(operation).ok()) return 1;
  }
  return 0;
}

}  // namespace

int main() {
  void* shared = ::mmap(nullptr, sizeof(pid_t) * kMostRanks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  pid_t* processes = static_cast<pid_t*>(shared);
  for (const char* transport : {"shm", "tcp"}) {
    for (const Rank ranks : {2u, kMostRanks}) {
      JoinOptions options;
      options.transport = transport;
      options.timeout = 60s;
      const auto body = [&](ProcessGroup& group) { return take_part(group, transport, processes); };
      if (const Status status = run_forked(ranks, body, options); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.to_string().c_str());
        return 1;
      }
    }
  }
}
