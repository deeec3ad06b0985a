// SPDX-License-Identifier: Apache-2.0
// The threads of one rank, which copy and fold large blocks together: the driver, and others that it calls in. They
// know neither steps nor transports.
//
// The driver cuts a block into pieces and everybody takes the next one that is left, so it never waits for a thread to
// wake up or to be given a core: what nobody else has taken, it does itself. Between blocks the others look for more
// for some microseconds and then sleep, so that they are not in the way of the program's own threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork.h"

namespace regroup::executor {

// Threads of a rank, the driver included. More would gain nothing: about so many fill the memory of a socket, and each
// costs the driver a moment to call in.
inline constexpr unsigned kMostThreads = 16;

// Bytes of an operation, on its larger side, from which a team works on it; and of a block of it that is shared.
inline constexpr uint64_t kTeamOperation = 1 << 20;
inline constexpr uint64_t kTeamBlock = 128 << 10;
// Bytes of a piece: a multiple of a cache line and of every element. What one folds of several sources stays in a
// cache.
inline constexpr uint64_t kTeamPiece = 64 << 10;

constexpr uint32_t pieces_of(uint64_t bytes) { return static_cast<uint32_t>((bytes + kTeamPiece - 1) / kTeamPiece); }

class Team {
 public:
  // Of `threads` threads, the caller of `run` included: 1 to kMostThreads. The others are started by the first `run`.
  explicit Team(unsigned threads = 1);
  // No other thread is in `run`. In the child of a fork, where the threads are missing, it only forgets them.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned threads() const { return threads_; }

  // Calls body(lane, piece) once for each piece from 0 to pieces − 1, and returns when all calls have returned. `lane`,
  // below threads(), is the same for calls that come one after the other, so that each lane may have memory of its own.
  // The body does not throw. One caller at a time. No allocation but in the first call.
  template <typename Body>
  void run(uint32_t pieces, const Body& body) {
    run_pieces(
        pieces,
        [](const void* context, unsigned lane, uint32_t piece) { (*static_cast<const Body*>(context))(lane, piece); },
        &body);
  }

 private:
  using Call = void (*)(const void* context, unsigned lane, uint32_t piece);
  // Locks and threads; apart, because the child of a fork must not destroy them.
  struct Sleepers;

  void run_pieces(uint32_t pieces, Call call, const void* context);
  void start();
  void work(unsigned lane);
  void help(unsigned lane);
  void sleep();

  const uint64_t generation_ = base::fork_generation();
  unsigned threads_;
  Sleepers* sleepers_ = nullptr;  // nullptr: not started

  // The block at hand. Written by the driver while `left_` is 0 and nothing is unfinished; read by who has taken a
  // piece.
  Call call_ = nullptr;
  const void* context_ = nullptr;
  uint32_t pieces_ = 0;
  // Each on a line of its own: all threads write the first while the driver looks at the second.
  alignas(64) std::atomic<uint32_t> left_ = 0;        // pieces that nobody has taken
  alignas(64) std::atomic<uint32_t> unfinished_ = 0;  // pieces whose calls have not returned
  alignas(64) std::atomic<uint32_t> sleeping_ = 0;    // threads that must be woken
  std::atomic<bool> closing_ = false;
};

// Copies between ranges that do not overlap, past the caches where it `stream`s; by the team, if there is one and it is
// worth it.
void copy_together(Team* team, std::byte* to, const std::byte* from, uint64_t bytes, bool stream);

}  // namespace regroup::executor
