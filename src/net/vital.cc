// SPDX-License-Identifier: Apache-2.0
#include "net/vital.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"
#include "base/thread.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace regroup::net {

namespace {

constexpr auto kPatience = std::chrono::hours(1);  // every wait ends; this one has nothing to do then

// As linux/futex.h has it since 5.16; the number is the same on all machines.
constexpr long kFutexWaitv = 449;
constexpr uint32_t kWordOf32Bits = 2;
struct Waiter {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t zero;
};
Waiter waiter(const std::atomic<uint32_t>* word, uint32_t value, uint32_t flags) {
  return {value, reinterpret_cast<uint64_t>(word), kWordOf32Bits | flags, 0};
}

// 0, or an errno; EAGAIN where a word had another value.
int wait_for_any(const Waiter* waiters, size_t count, base::Time deadline) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  const timespec until{static_cast<time_t>(since / 1'000'000'000), static_cast<long>(since % 1'000'000'000)};
  return ::syscall(kFutexWaitv, waiters, count, 0, &until, CLOCK_MONOTONIC) >= 0 ? 0 : errno;
}

bool kernel_can_wait() {
  const std::atomic<uint32_t> word{0};
  const Waiter never = waiter(&word, 1, FUTEX_PRIVATE_FLAG);
  return wait_for_any(&never, 1, base::Clock::now()) == EAGAIN;
}

}  // namespace

Result<std::shared_ptr<Vital>> Vital::acquire() { return base::OnePerProcess<Vital>::acquire(); }

Result<std::shared_ptr<Vital>> Vital::make() {
  if (!kernel_can_wait()) return Status(StatusCode::unsupported, "this kernel has no futex_waitv");
  std::shared_ptr<Vital> vital(new Vital, &Vital::release);
  if (Status status = vital->make_memory(); !status.ok()) return status;
  if (Status status = vital->start(); !status.ok()) return status;
  return vital;
}

Status Vital::make_memory() {
  constexpr size_t bytes = kWords * sizeof(Word);
  memory_ = base::ProcessFd(base::Fd(::memfd_create("regroup-vital", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!memory_.valid()) return base::system_error("memfd_create");
  if (::ftruncate(memory_.get(), bytes) != 0) return base::system_error("ftruncate");
  if (::fallocate(memory_.get(), 0, 0, bytes) != 0) return base::system_error("fallocate");
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory_.get(), 0);
  if (data == MAP_FAILED) return base::system_error("mmap");
  words_ = static_cast<Word*>(data);
  if (::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0)
    return base::system_error("sealing");
  return {};
}

Status Vital::start() {
  if (Status status = base::start_thread(&thread_, [this] { run(); }); !status.ok()) return status;
  ::pthread_setname_np(thread_.native_handle(), "regroup-vital");
  std::unique_lock lock(mutex_);
  started_.wait(lock, [this] { return state_ != Thread::starting; });
  if (state_ == Thread::running) return {};
  return Status(StatusCode::unsupported, "this kernel takes no list of robust futexes");
}

void Vital::release(Vital* vital) {
  // In the child of a fork the thread is gone and its locks may be held for ever: leave the copy be.
  if (vital->generation_ == base::fork_generation()) delete vital;
}

Vital::~Vital() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ring();
    thread_.join();
  }
  if (words_ != nullptr) ::munmap(words_, kWords * sizeof(Word));
}

void Vital::ring() {
  bell_.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &bell_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

std::optional<uint32_t> Vital::lend(int pid) {
  const std::lock_guard lock(mutex_);
  if (const auto known = lent_.find(pid); known != lent_.end()) {
    ++known->second.times;
    return known->second.word;
  }
  // In turn, so that a word is not soon lent again: who had it before may be asleep on it yet, and would be woken in
  // the place of the other.
  if (lent_.size() == kWords) return std::nullopt;
  const auto taken = [this](uint32_t word) {
    return (words_[word].state.load(std::memory_order_relaxed) & FUTEX_WAITERS) != 0;
  };
  while (taken(next_word_ % kWords)) ++next_word_;
  const uint32_t word = next_word_++ % kWords;
  lent_[pid] = {word, 1};
  words_[word].state.store(id_ | FUTEX_WAITERS, std::memory_order_release);
  return word;
}

void Vital::give_back(int pid) {
  const std::lock_guard lock(mutex_);
  const auto known = lent_.find(pid);
  if (known == lent_.end() || --known->second.times > 0) return;
  words_[known->second.word].state.store(id_, std::memory_order_release);
  lent_.erase(known);
}

Vital::Watched::Watched(Watched&& other) noexcept
    : words(std::exchange(other.words, nullptr)), state(other.state), died(std::move(other.died)) {}

Vital::Watched::~Watched() {
  if (words != nullptr) ::munmap(const_cast<Word*>(words), kWords * sizeof(Word));
}

Vital::Ticket Vital::watch(const base::Fd& memory, uint32_t word, std::function<void()> died) {
  constexpr size_t bytes = kWords * sizeof(Word);
  struct stat about {};
  // Without the seal, the owner could shrink it under us, and a read would be a SIGBUS.
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (word >= kWords || seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(memory.get(), &about) != 0 ||
      static_cast<uint64_t>(about.st_size) < bytes) {
    return 0;
  }
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    const Identity identity(about.st_dev, about.st_ino, word);
    auto known = watched_.find(identity);
    if (known == watched_.end()) {
      if (watched_.size() == kMostWatched) return 0;
      void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.get(), 0);
      if (data == MAP_FAILED) return 0;
      Watched watched;
      watched.words = static_cast<const Word*>(data);
      watched.state = &watched.words[word].state;
      known = watched_.emplace(identity, std::move(watched)).first;
    }
    ticket = next_ticket_++;
    known->second.died.emplace(ticket, std::move(died));
  }
  ring();
  return ticket;
}

void Vital::unwatch(Ticket ticket) {
  // The thread may be asleep on the word: it leaves the mapping first.
  const std::lock_guard lock(mutex_);
  for (auto& [identity, watched] : watched_) {
    if (watched.died.erase(ticket) == 0) continue;
    if (watched.died.empty()) ring();
    return;
  }
}

// Gives the kernel the list of all words. It is made once and never changed: what a word means to others changes with
// its value.
bool Vital::enlist() {
  const auto id = static_cast<uint32_t>(::syscall(SYS_gettid));
  for (uint32_t i = 0; i < kWords; ++i) {
    words_[i].next = i + 1 < kWords ? &words_[i + 1] : reinterpret_cast<Word*>(&head_);
    words_[i].state.store(id, std::memory_order_relaxed);
  }
  head_ = {words_, offsetof(Word, state), nullptr};
  const bool taken = ::syscall(SYS_set_robust_list, &head_, sizeof head_) == 0;
  const std::lock_guard lock(mutex_);
  id_ = id;
  state_ = taken ? Thread::running : Thread::refused;
  started_.notify_all();
  return taken;
}

void Vital::run() {
  base::take_short_turns();
  if (!enlist()) return;
  for (;;) {
    std::vector<Watched> left, dead;
    uint32_t bell = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
      bell = bell_.load(std::memory_order_acquire);
      sleeps_on_.clear();
      seen_.clear();
      for (auto at = watched_.begin(); at != watched_.end();) {
        const uint32_t value = at->second.state->load(std::memory_order_acquire);
        const bool ended = (value & FUTEX_OWNER_DIED) != 0;
        if (!ended && !at->second.died.empty()) {
          sleeps_on_.push_back(at->second.state);
          seen_.push_back(value);
          ++at;
          continue;
        }
        (ended ? dead : left).push_back(std::move(at->second));
        at = watched_.erase(at);
      }
    }
    for (const Watched& watched : dead) {
      for (const auto& [ticket, died] : watched.died) died();
    }
    if (dead.empty()) sleep(bell);
  }
  // The list goes before the memory does.
  ::syscall(SYS_set_robust_list, nullptr, sizeof head_);
}

void Vital::sleep(uint32_t bell) {
  std::array<Waiter, kMostWatched + 1> waiters;
  waiters[0] = waiter(&bell_, bell, FUTEX_PRIVATE_FLAG);
  for (size_t i = 0; i < sleeps_on_.size(); ++i) waiters[i + 1] = waiter(sleeps_on_[i], seen_[i], 0);
  const int error = wait_for_any(waiters.data(), sleeps_on_.size() + 1, base::deadline_after(kPatience));
  if (error == 0 || error == EAGAIN || error == EINTR || error == ETIMEDOUT) return;
  // It will not get better: nobody is watched any more in this way.
  const std::lock_guard lock(mutex_);
  watched_.clear();
}

}  // namespace regroup::net
