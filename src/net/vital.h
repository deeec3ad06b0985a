// SPDX-License-Identifier: Apache-2.0
// Notice of the death of processes on this host within a fraction of a millisecond, however much memory they held. A
// dying process closes its sockets and signals its pidfd only when its memory has been freed, which takes 80 ms a
// gigabyte; its threads' lists of robust futexes are walked before.
//
// One thread a process keeps words in memory that others map for reading, each holding the thread's id. When the
// process ends in whatever way, the kernel marks these words and wakes the thread that sleeps on them: another
// process's thread of this kind. It wakes one sleeper a word, so each watching process is lent a word of its own.
//
// It knows nothing of groups and connections. Where the kernel lacks one of the two calls (futex_waitv is of Linux
// 5.16) or forbids it, there is none, and deaths are noticed by other ways.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "base/fd.h"
#include "base/fork.h"
#include "base/one_per_process.h"
#include "regroup/status.h"

namespace regroup::net {

// All calls from any thread.
class Vital {
 public:
  static constexpr uint32_t kWords = 512;      // processes that can watch this one; the kernel walks at most 2048
  static constexpr size_t kMostWatched = 127;  // processes that this one can watch: a thread sleeps on 128 words
  using Ticket = uint64_t;                     // 0: none

  // The process's, started where there is none. The last holder to let go ends the thread and waits for its end: never
  // from within `died`. The child of a fork gets its own.
  static Result<std::shared_ptr<Vital>> acquire();

  // --- to be watched
  // The memory with the words, to be passed to those who shall watch this process.
  int descriptor() const { return memory_.get(); }
  // The word for the process `pid`: the same one each time, until it was given back as often. Nothing: all are lent.
  std::optional<uint32_t> lend(int pid);
  void give_back(int pid);

  // --- to watch
  // Calls `died` on the vital thread, once, if the process whose `memory` this is ends; it must not block, and may
  // still come while `unwatch` is called. None where this cannot be watched.
  Ticket watch(const base::Fd& memory, uint32_t word, std::function<void()> died);
  void unwatch(Ticket ticket);

 private:
  friend class base::OnePerProcess<Vital>;

  // As the kernel's struct robust_list has it, with the futex beside it.
  struct Word {
    Word* next;
    std::atomic<uint32_t> state;
    uint32_t unused;
  };
  struct ListHead {
    Word* first;
    long futex_offset;
    Word* pending;
  };
  struct Lent {
    uint32_t word = 0;
    uint32_t times = 0;
  };
  // A process that is watched, by what identifies its memory in the kernel, and the word.
  using Identity = std::tuple<uint64_t, uint64_t, uint32_t>;
  struct Watched {
    Watched() = default;
    Watched(Watched&& other) noexcept;
    ~Watched();
    const Word* words = nullptr;  // a mapping
    const std::atomic<uint32_t>* state = nullptr;
    std::map<Ticket, std::function<void()>> died;
  };
  enum class Thread : uint8_t { starting, running, refused };

  Vital() = default;
  ~Vital();
  static Result<std::shared_ptr<Vital>> make();
  static void release(Vital* vital);
  Status make_memory();
  Status start();
  void run();
  bool enlist();
  void sleep(uint32_t bell);
  void ring();

  const uint64_t generation_ = base::fork_generation();
  base::ProcessFd memory_;
  Word* words_ = nullptr;
  std::atomic<uint32_t> bell_{0};
  std::thread thread_;

  // The thread's alone.
  ListHead head_{};
  std::vector<const std::atomic<uint32_t>*> sleeps_on_;
  std::vector<uint32_t> seen_;

  std::mutex mutex_;
  std::condition_variable started_;
  Thread state_ = Thread::starting;
  bool stopping_ = false;
  uint32_t id_ = 0;  // of the thread
  uint32_t next_word_ = 0;
  std::map<int, Lent> lent_;  // by process
  std::map<Identity, Watched> watched_;
  Ticket next_ticket_ = 1;
};

}  // namespace regroup::net
