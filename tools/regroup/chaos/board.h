// SPDX-License-Identifier: Apache-2.0
// What the parent and the ranks of one run tell each other, in memory that they share. Each rank writes its own place;
// what it has written counts once its phase says so.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "regroup/status.h"

namespace regroup::tool::chaos {

inline constexpr Rank kMostRanks = 64;
inline constexpr uint32_t kMostOperations = 4096;

enum class Phase : uint32_t { starting, joining, working, failed, shrunk, settled, leaving, done };
inline constexpr const char* kPhaseNames[] = {
    "starting",   "joining", "in its operations", "in shrink", "in its next life", "waiting for the end",
    "in leaving", "done"};

// A Status that fits into shared memory.
struct Told {
  bool any = false;
  StatusCode code = StatusCode::ok;
  uint64_t blamed = 0;  // a bit for each rank
  char text[300] = {};

  void set(const Status& status) {
    any = true;
    code = status.code();
    blamed = 0;
    for (const Rank rank : status.ranks()) blamed |= uint64_t{1} << (rank % kMostRanks);
    std::strncpy(text, status.to_string().c_str(), sizeof text - 1);
  }
};

struct Place {
  std::atomic<Phase> phase;
  std::atomic<uint32_t> begun;                              // operations of the first life
  std::atomic<pid_t> helper;                                // the child of a victim
  std::atomic<int64_t> called_at, failed_at, recovered_at;  // called: what failed
  Told failure;                                             // of an operation
  Told shrink;                                              // of shrink()
  Rank size = 0;                                            // and what came of it
  uint64_t epoch = 0;
  uint64_t members = 0;
  uint32_t right = 0;     // operations whose results were checked and are right
  char wrong[500] = {};   // what is not as it must be; the first that was seen
  char stayed[500] = {};  // what it left behind
  uint64_t fingerprints[kMostOperations] = {};

  void complain(const std::string& text) {
    if (wrong[0] == 0) std::strncpy(wrong, text.c_str(), sizeof wrong - 1);
  }
};

struct Board {
  std::atomic<int64_t> fault_at;  // nanoseconds of the monotonic clock; 0: not yet
  std::atomic<int64_t> abort_took;
  std::atomic<bool> resumed;  // the stopped rank runs again
  std::atomic<bool> finish;   // all have settled
  Place place[kMostRanks];
};

inline int64_t now_ns() { return base::Clock::now().time_since_epoch().count(); }

}  // namespace regroup::tool::chaos
