// SPDX-License-Identifier: Apache-2.0
// A contender of a contest: a library whose collectives are measured. A driver gives it this interface; everything
// around the call itself (buffers and their values, pinning, meeting, clock, comparison) is the same code for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "contest/board.h"

namespace regroup::contest {

// What a call has to do: `task` with `part` elements of each rank's part (of the vector, where there are no parts).
// Parts lie one after the other.
struct Turn {
  const Task* task = nullptr;
  Rank rank = 0;
  uint64_t part = 0;
  uint32_t variant = 0;         // of a contender that has several ways: which
  std::byte* input = nullptr;   // nullptr where this rank has none
  std::byte* output = nullptr;  // likewise; in place: equals `input`, which has as many parts as the larger side
  uint64_t input_parts = 0;
  uint64_t output_parts = 0;

  bool at_root() const { return !has_root(task->collective) || rank == task->root; }
  uint64_t part_bytes() const { return part * size_of(task->type); }
};

// Errors are words for people; empty: it worked.
class Contender {
 public:
  virtual ~Contender() = default;
  // Joins the other ranks. `version` appears in the results.
  virtual std::string start(Rank rank, Rank ranks, std::string* version) = 0;
  // Memory for inputs and outputs; nullptr if there is none. Ordinary memory, unless a contender has its own.
  virtual std::byte* take(uint64_t bytes);
  // Another size, or variant, begins. Why it cannot be measured, on all ranks alike.
  virtual std::string prepare(const Turn& turn) = 0;
  // Once what was prepared.
  virtual std::string call() = 0;
  // The least that any implementation has to do, in the same rounds: for the first contender only.
  virtual void prepare_floor() {}
  virtual std::string floor() { return {}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> ordinary_;
};

// One core for each rank in turn, of those that this process may use; `width` cores where ranks have so many threads.
void pin(Rank rank, unsigned width = 1);
// All of those cores, shared out among the ranks; one in turn where there are not enough.
void pin_to_share(Rank rank, Rank ranks);

// A rank's whole part in a contest: until the organiser ends it or goes away. The exit status for the process.
int contend(Contender& contender, Board& board, uint32_t side, Rank rank);

// The same for a driver that a launcher started: finds the board by REGROUP_CONTEST ("side:path").
int contend(Contender& contender, Rank rank);

}  // namespace regroup::contest
