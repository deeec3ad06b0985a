// SPDX-License-Identifier: Apache-2.0
// Memory that all processes of a contest share: what is to be done, whose turn it is, what came out. The organiser
// makes it; ranks of contenders that it forks inherit it, others open it by its path. Plain data of one build; zeroed
// pages are its first state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "regroup/operation.h"

namespace regroup::contest {

inline constexpr uint32_t kMostIterations = 10000;  // in one turn
inline constexpr uint32_t kMostSizes = 32;
inline constexpr uint32_t kMostRanks = 256;
inline constexpr uint32_t kMostContenders = 8;
inline constexpr uint32_t kMostPhases = 8;

// What everybody does: one collective, at several sizes.
struct Task {
  Collective collective;
  DataType type;
  ReduceOp op;
  Rank ranks;
  Rank root;
  bool in_place;
  bool check;  // every output element, after every call
  uint32_t sizes;
  uint64_t parts[kMostSizes];  // elements of each rank's part, where there are parts, else of the vector
};

// Whether inputs or outputs consist of a part for each rank.
constexpr bool has_parts(Collective c) {
  return c == Collective::gather || c == Collective::all_gather || c == Collective::scatter ||
         c == Collective::reduce_scatter || c == Collective::all_to_all;
}
// Bytes of a rank's larger side.
constexpr uint64_t larger_side(const Task& task, uint64_t part) {
  return part * size_of(task.type) * (has_parts(task.collective) ? task.ranks : 1);
}

// Time that rank 0 of the first contender spent in one phase of its measured calls.
struct Phase {
  char name[32];
  double us;
  uint64_t calls;
};

// Any number of ranks meet: they look, then yield.
struct Meeting {
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> generation;
  std::atomic<int64_t> start;            // by the steady clock, in nanoseconds: a moment after all have come
  alignas(64) std::atomic<bool> broken;  // somebody gives up: all let go

  // False if it is broken.
  bool wait(uint32_t ranks);
  // The same, and all leave at one moment, where each has a core: the last one to come would otherwise be ahead by the
  // time that it takes the others to see it, which is as long as a small call.
  bool wait_and_leave_together(uint32_t ranks);
};

enum class Do : uint32_t { nothing, warm_up, measure, floor, end };

// One contender's side of the board.
struct Side {
  Meeting meeting;
  // A turn: the organiser writes the order, then raises `turn`; each rank raises `finished` when it is through.
  alignas(64) std::atomic<uint32_t> turn;  // ranks sleep on it
  Do order;
  uint32_t size;     // index
  uint32_t variant;  // which of the contender's ways, where it has several
  uint32_t iterations;
  alignas(64) std::atomic<uint32_t> finished;  // the organiser sleeps on it
  std::atomic<uint32_t> ready;                 // ranks that have started
  std::atomic<bool> wrong[kMostSizes];
  char version[64];
  char cannot[kMostSizes][128];   // why a size cannot be measured
  char problem[kMostRanks][512];  // what went wrong; empty if nothing
};

struct RankTimes {
  double us[kMostIterations];
};

struct Board {
  int32_t organiser;  // its process: without it there is nothing to wait for
  Task task;
  std::atomic<uint64_t> done;  // calls of the turn that goes on, for the progress bar
  double whole_us;             // of rank 0's last turn of measured calls, with what belongs to them
  Phase phases[kMostPhases];   // summed over its turns at a size
  Side sides[kMostContenders];
  RankTimes ranks[kMostRanks];  // of the turn that goes on, or the last one
};

// Sleeps until `word` is no longer `seen`, at most `most`. Any process.
void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds most);
void wake_all(std::atomic<uint32_t>& word);

class SharedBoard {
 public:
  // Empty (`get() == nullptr`) if there is no memory.
  static SharedBoard make();
  // Of another process. `problem` says why it could not be had.
  static SharedBoard open(const std::string& path, std::string* problem);
  SharedBoard() = default;
  SharedBoard(SharedBoard&& other) noexcept;
  SharedBoard& operator=(SharedBoard&&) = delete;
  ~SharedBoard();

  Board* get() const { return board_; }
  Board* operator->() const { return board_; }
  // By which other processes open it, as long as this one lives.
  std::string path() const;

 private:
  base::Fd fd_;
  Board* board_ = nullptr;
};

}  // namespace regroup::contest
