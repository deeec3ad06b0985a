// SPDX-License-Identifier: Apache-2.0
#include "executor/team.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/assert.h"
#include "base/fence.h"
#include "base/thread.h"
#include "reduce/copy.h"

namespace regroup::executor {

namespace {

// Looks of a thread that has nothing to do: some 20 µs, in which the next block of the same operation comes unless a
// peer keeps this rank waiting.
constexpr int kLooks = 500;
// Looks of the driver for pieces that others have begun, before it offers its core to them.
constexpr int kPatience = 2000;

}  // namespace

struct Team::Sleepers {
  std::mutex mutex;
  std::condition_variable called;
  std::vector<std::thread> threads;
};

Team::Team(unsigned threads) : threads_(threads) { REGROUP_ASSERT(threads >= 1 && threads <= kMostThreads); }

Team::~Team() {
  // In a child the condition variable has waiters that will never leave it.
  if (sleepers_ == nullptr || generation_ != base::fork_generation()) return;
  {
    const std::lock_guard lock(sleepers_->mutex);
    closing_.store(true, std::memory_order_seq_cst);
  }
  sleepers_->called.notify_all();
  for (std::thread& thread : sleepers_->threads) thread.join();
  delete sleepers_;
}

// Where the system gives no more threads, those that there are do it.
void Team::start() {
  sleepers_ = new Sleepers;
  sleepers_->threads.reserve(threads_ - 1);
  for (unsigned lane = 1; lane < threads_; ++lane) {
    std::thread thread;
    if (!base::start_thread(&thread, [this, lane] { help(lane); }).ok()) break;
    sleepers_->threads.push_back(std::move(thread));
  }
}

void Team::run_pieces(uint32_t pieces, Call call, const void* context) {
  if (threads_ == 1 || pieces <= 1 || generation_ != base::fork_generation()) {
    for (uint32_t piece = 0; piece < pieces; ++piece) call(context, 0, piece);
    return;
  }
  if (sleepers_ == nullptr) start();
  call_ = call;
  context_ = context;
  pieces_ = pieces;
  unfinished_.store(pieces, std::memory_order_relaxed);
  // Either this sees who sleeps, or who is about to sleep sees this.
  left_.store(pieces, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) {
    // Who is about to sleep holds the lock until it does.
    { const std::lock_guard until_asleep(sleepers_->mutex); }
    sleepers_->called.notify_all();
  }
  work(0);
  // A piece is some microseconds of copying, so this ends, unless its thread has lost its core: then it may have this.
  for (int looks = 0; unfinished_.load(std::memory_order_acquire) > 0; ++looks) {
    if (looks < kPatience) {
      base::spin_hint();
    } else {
      sched_yield();
    }
  }
}

// Takes pieces until none is left. What a piece belongs to is only read once it is taken, for until it is finished the
// driver does not go on to another block.
void Team::work(unsigned lane) {
  uint32_t left = left_.load(std::memory_order_relaxed);
  while (left > 0) {
    if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acquire, std::memory_order_relaxed)) continue;
    call_(context_, lane, pieces_ - left);
    unfinished_.fetch_sub(1, std::memory_order_release);
    left = left_.load(std::memory_order_relaxed);
  }
}

void Team::help(unsigned lane) {
  int looks = 0;
  while (!closing_.load(std::memory_order_relaxed)) {
    if (left_.load(std::memory_order_relaxed) > 0) {
      work(lane);
      looks = 0;
    } else if (++looks < kLooks) {
      base::spin_hint();
    } else {
      sleep();
      looks = 0;
    }
  }
}

void Team::sleep() {
  std::unique_lock lock(sleepers_->mutex);
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  while (left_.load(std::memory_order_seq_cst) == 0 && !closing_.load(std::memory_order_seq_cst)) {
    sleepers_->called.wait_for(lock, std::chrono::seconds(1));
  }
  sleeping_.fetch_sub(1, std::memory_order_relaxed);
}

void copy_together(Team* team, std::byte* to, const std::byte* from, uint64_t bytes, bool stream) {
  const auto copy = [stream](std::byte* at, const std::byte* source, uint64_t some) {
    if (stream) {
      reduction::copy_streaming(at, source, some);
    } else {
      std::memcpy(at, source, some);
    }
  };
  if (team == nullptr || bytes < kTeamBlock) return copy(to, from, bytes);
  team->run(pieces_of(bytes), [&](unsigned, uint32_t piece) {
    const uint64_t offset = piece * kTeamPiece;
    copy(to + offset, from + offset, std::min(kTeamPiece, bytes - offset));
  });
}

}  // namespace regroup::executor
