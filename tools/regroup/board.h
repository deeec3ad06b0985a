// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a measurement and their parent share: a barrier, each rank's times, results as they come.
// Zeroed pages are its first state.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace regroup::tool {

inline constexpr uint32_t kMostIterations = 10000;
inline constexpr uint32_t kMostSizes = 32;
inline constexpr uint32_t kMostRanks = 256;
inline constexpr uint32_t kMostPhases = 8;

// Time that rank 0 spent in one phase of the timed iterations.
struct Phase {
  char name[32];
  double us;
  uint64_t calls;
};

struct SizeResult {
  std::atomic<bool> ready;
  uint32_t iterations;
  double p50_us, min_us, p99_us;
  double floor_us;  // 0: none
  double whole_us;  // all timed iterations, with what belongs to them
  Phase phases[kMostPhases];
};

struct RankArea {
  double call_us[kMostIterations];
  double floor_us[kMostIterations];
  bool wrong;         // an output of the size at hand
  char problem[512];  // what went wrong; empty if nothing
};

struct Board {
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> generation;
  alignas(64) std::atomic<bool> failed;  // somebody gives up: barriers let go
  std::atomic<uint32_t> iterations;      // that rank 0 decided on
  std::atomic<uint64_t> done;            // iterations, for the progress bar
  std::atomic<uint64_t> planned;
  std::atomic<bool> wrong[kMostSizes];
  SizeResult results[kMostSizes];
  RankArea ranks[kMostRanks];

  // All ranks: false if somebody has failed.
  bool wait(uint32_t size);
  void fail(uint32_t rank, const std::string& problem);
};

struct Unmap {
  void operator()(Board* board) const;
};
using SharedBoard = std::unique_ptr<Board, Unmap>;
// nullptr if there is no memory.
SharedBoard make_board();

}  // namespace regroup::tool
