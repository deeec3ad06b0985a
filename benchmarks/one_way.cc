// SPDX-License-Identifier: Apache-2.0
// How much of a bare socket's speed is left to one message: rank 0 sends, rank 1 receives, by a group over TCP and by
// bare sockets over loopback in turn. Prints medians, and the bare sockets' time divided by the group's.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "contest/board.h"
#include "contest/contender.h"
#include "contest/floor.h"
#include "regroup/join.h"
#include "regroup/operation.h"

namespace regroup::contest {

namespace {

constexpr int kIterations = 40;
constexpr int kWarmUp = 3;
constexpr int kBoundedBuffer = 256 << 10;

enum Way : int { kGroup, kBare, kBounded, kWays };
constexpr const char* kNames[kWays] = {"regroup", "bare socket", "bare socket, bounded send buffer"};

struct Shared {
  Meeting meeting;
  double us[2][kWays][kIterations];  // by rank
};

class Runner {
 public:
  Runner(Rank rank, uint64_t bytes, Shared& shared)
      : rank_(rank), bytes_(bytes), shared_(shared), memory_(2 * bytes, std::byte{1}) {}

  bool run(const std::string& store, SocketRing& bare, SocketRing& bounded) {
    pin(rank_);
    JoinOptions options;
    options.store_url = "file://" + store;
    options.rank = rank_;
    options.size = 2;
    options.transport = "tcp";
    Result<ProcessGroup> group = join(options);
    if (!group.ok() || !bare.connect(rank_) || !bounded.connect(rank_, kBoundedBuffer)) return false;
    const Buffer buffer{memory_.data() + (rank_ == 0 ? 0 : bytes_), DataType::uint8, bytes_};
    for (int iteration = -kWarmUp; iteration < kIterations; ++iteration) {
      const bool good =
          timed(iteration, kGroup,
                [&] { return group->run(rank_ == 0 ? send(from(buffer), 1) : receive(into(buffer), 0)).ok(); }) &&
          timed(iteration, kBare, [&] { return move(bare); }) &&
          timed(iteration, kBounded, [&] { return move(bounded); });
      if (!good) return false;
    }
    return shared_.meeting.wait(2);  // nobody leaves while the other still needs him
  }

 private:
  bool move(SocketRing& ring) {
    return ring.exchange(memory_.data(), memory_.size(), rank_ == 0 ? bytes_ : 0, rank_ == 0 ? 0 : bytes_);
  }

  template <typename Body>
  bool timed(int iteration, Way way, Body body) {
    if (!shared_.meeting.wait(2)) return false;
    const auto begin = std::chrono::steady_clock::now();
    const bool good = body();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (iteration >= 0) shared_.us[rank_][way][iteration] = took.count();
    if (!good) shared_.meeting.broken.store(true);
    return good;
  }

  const Rank rank_;
  const uint64_t bytes_;
  Shared& shared_;
  std::vector<std::byte> memory_;
};

double median_of(const Shared& shared, Way way) {
  std::vector<double> slower;
  for (int i = 0; i < kIterations; ++i) slower.push_back(std::max(shared.us[0][way][i], shared.us[1][way][i]));
  std::nth_element(slower.begin(), slower.begin() + kIterations / 2, slower.end());
  return slower[kIterations / 2];
}

int run(uint64_t bytes) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::string folder = (std::filesystem::temp_directory_path() / "regroup-one-way-XXXXXX").string();
  if (memory == MAP_FAILED || ::mkdtemp(folder.data()) == nullptr) return 1;
  Shared& shared = *static_cast<Shared*>(memory);
  SocketRing bare(2), bounded(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    if (::fork() != 0) continue;
    const bool good = Runner(rank, bytes, shared).run(folder + "/store", bare, bounded);
    if (!good) shared.meeting.broken.store(true);
    ::_exit(good ? 0 : 1);
  }
  bare.close_all();
  bounded.close_all();
  int failed = 0, status = 0;
  while (::wait(&status) > 0) failed |= status;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (failed != 0) {
    std::fprintf(stderr, "one_way: a rank failed\n");
    return 1;
  }
  const double ours = median_of(shared, kGroup);
  for (const Way way : {kGroup, kBare, kBounded}) {
    const double us = median_of(shared, way);
    std::printf("%-34s %10.0f us %8.2f GB/s %6.0f %%\n", kNames[way], us, static_cast<double>(bytes) / us / 1e3,
                100 * us / ours);
  }
  return 0;
}

}  // namespace

}  // namespace regroup::contest

int main(int argc, char** argv) {
  const unsigned long mebibytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
  if (argc > 2 || mebibytes == 0 || mebibytes > 4096) {
    std::fprintf(stderr, "usage: one_way [MEBIBYTES]\n");
    return 2;
  }
  return regroup::contest::run(static_cast<uint64_t>(mebibytes) << 20);
}
