// SPDX-License-Identifier: Apache-2.0
// How soon a death is noticed: 4 ranks run all_reduces of 4 MB, one of them is killed, and the time until the last of
// the others has its error is taken, for a victim with little and with much memory. Prints quantiles.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "regroup/regroup.h"

namespace {

using namespace regroup;
using namespace std::chrono_literals;

constexpr Rank kSize = 4;
constexpr Rank kVictim = 1;

struct Shared {
  std::atomic<int> ready;
  std::atomic<int> told;                // survivors that have their error
  std::atomic<int64_t> noticed[kSize];  // 0: not yet; -1: with another error than it should be
};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void be_rank(const JoinOptions& options, uint64_t resident, Shared& shared) {
  const Rank rank = *options.rank;
  std::vector<char> memory(rank == kVictim ? resident : 0, 'x');
  Result<ProcessGroup> group = join(options);
  if (!group.ok()) std::fprintf(stderr, "detection: %s\n", group.status().to_string().c_str());
  if (!group.ok()) return;
  std::vector<float> data(1 << 20);
  for (int round = 0; round < 1'000'000; ++round) {
    const Status status = group->run(all_reduce(in_place(data)));
    if (!status.ok()) {
      const bool good = status.code() == StatusCode::peer_lost && status.ranks() == std::vector<Rank>{kVictim};
      shared.noticed[rank] = good ? now() : -1;
      // Going takes time on the cores that others need to see their own error.
      ++shared.told;
      while (shared.told < static_cast<int>(kSize) - 1) std::this_thread::sleep_for(1ms);
      return;
    }
    if (round == 3) ++shared.ready;
  }
}

// Microseconds from the kill to the last survivor's error; negative: something went wrong.
double once(const std::string& transport, uint64_t resident, std::chrono::microseconds moment, Shared& shared) {
  std::string folder = (std::filesystem::temp_directory_path() / "regroup-detection-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return -1;
  shared.ready = shared.told = 0;
  for (auto& at : shared.noticed) at = 0;
  pid_t ranks[kSize];
  for (Rank rank = 0; rank < kSize; ++rank) {
    ranks[rank] = ::fork();
    if (ranks[rank] != 0) continue;
    ::alarm(60);
    JoinOptions options;
    options.rank = rank;
    options.size = kSize;
    options.transport = transport;
    options.timeout = 30s;
    options.store_url = "file://" + folder + "/store";
    be_rank(options, resident, shared);
    ::_exit(0);
  }
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (shared.ready < static_cast<int>(kSize) && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(moment);
  const int64_t killed = now();
  ::kill(ranks[kVictim], SIGKILL);
  for (const pid_t rank : ranks) ::waitpid(rank, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  int64_t last = 0;
  for (Rank rank = 0; rank < kSize; ++rank) {
    if (rank == kVictim) continue;
    if (shared.noticed[rank] <= 0) return -1;
    last = std::max(last, shared.noticed[rank] - killed);
  }
  return static_cast<double>(last) / 1e3;
}

bool measure(const std::string& transport, uint64_t mebibytes, int rounds, Shared& shared) {
  std::vector<double> us;
  std::mt19937 random(7);
  for (int round = 0; round < rounds; ++round) {
    us.push_back(once(transport, mebibytes << 20, std::chrono::microseconds(random() % 20000), shared));
    if (us.back() < 0) return false;
  }
  std::sort(us.begin(), us.end());
  const auto quantile = [&us](size_t percent) { return us[std::min(us.size() - 1, us.size() * percent / 100)] / 1e3; };
  std::printf("%-4s %5lu MiB resident, %4d kills: p50 %7.2f ms, p99 %7.2f ms, max %7.2f ms\n", transport.c_str(),
              static_cast<unsigned long>(mebibytes), rounds, quantile(50), quantile(99), us.back() / 1e3);
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  const std::string transport = argc > 2 ? argv[2] : "shm";
  if (argc > 3 || rounds <= 0 || (transport != "shm" && transport != "tcp")) {
    std::fprintf(stderr, "usage: detection [KILLS [shm|tcp]]\n");
    return 2;
  }
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Shared& shared = *new (memory) Shared;
  for (const uint64_t mebibytes : {16, 2048}) {
    if (!measure(transport, mebibytes, rounds, shared)) {
      std::fprintf(stderr, "detection: a survivor got no error, or another one than it should\n");
      return 1;
    }
  }
  return 0;
}
