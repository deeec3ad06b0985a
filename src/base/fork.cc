// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace regroup::base {

// All live ProcessFds, as a list through themselves, so that the child's handler allocates nothing.
struct ForkRegistry {
  std::mutex mutex;
  ProcessFd* first = nullptr;
  std::atomic<uint64_t> generation{1};

  // Never destroyed: threads may outlive the statics at exit.
  static ForkRegistry& instance() {
    static ForkRegistry* registry = [] {
      auto* made = new ForkRegistry;
      pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); }, [] { instance().in_child(); });
      return made;
    }();
    return *registry;
  }

  void in_child() {
    generation.fetch_add(1, std::memory_order_relaxed);
    for (ProcessFd* at = first; at != nullptr;) {
      ProcessFd* next = at->next_;
      ::close(at->fd_);
      at->fd_ = -1;
      at->previous_ = at->next_ = nullptr;
      at = next;
    }
    first = nullptr;
    mutex.unlock();
  }
};

uint64_t fork_generation() { return ForkRegistry::instance().generation.load(std::memory_order_relaxed); }

ProcessFd::ProcessFd(Fd fd) {
  if (fd.valid()) enlist(fd.release());
}

ProcessFd::ProcessFd(ProcessFd&& other) noexcept {
  const int fd = other.delist();
  if (fd >= 0) enlist(fd);
}

ProcessFd& ProcessFd::operator=(ProcessFd&& other) noexcept {
  if (this == &other) return *this;
  reset();
  const int fd = other.delist();
  if (fd >= 0) enlist(fd);
  return *this;
}

void ProcessFd::reset() {
  const int fd = delist();
  if (fd >= 0) ::close(fd);
}

void ProcessFd::enlist(int fd) {
  ForkRegistry& registry = ForkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  fd_ = fd;
  next_ = registry.first;
  previous_ = nullptr;
  if (next_ != nullptr) next_->previous_ = this;
  registry.first = this;
}

int ProcessFd::delist() {
  if (fd_ < 0) return -1;
  ForkRegistry& registry = ForkRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  (previous_ != nullptr ? previous_->next_ : registry.first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  previous_ = next_ = nullptr;
  return std::exchange(fd_, -1);
}

}  // namespace regroup::base
