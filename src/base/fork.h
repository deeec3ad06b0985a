// SPDX-License-Identifier: Apache-2.0
// What must not survive a fork. A child has none of its parent's threads and must not keep the parent's connections
// open: its copies would hide from the peers that the parent died.
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace regroup::base {

// A number that differs between a process and the children it forks. An object that owns a thread notes it at creation;
// where it differs later, the thread does not exist here and locks may be held by nobody.
uint64_t fork_generation();

// A descriptor that the child of a fork closes at once (in an atfork handler) and sees as invalid. For connections and
// epoll instances that belong to a service of this process alone. Not thread safe; a fork may happen at any time.
class ProcessFd {
 public:
  ProcessFd() = default;
  explicit ProcessFd(Fd fd);
  ProcessFd(ProcessFd&& other) noexcept;
  ProcessFd& operator=(ProcessFd&& other) noexcept;
  ~ProcessFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  friend struct ForkRegistry;
  void enlist(int fd);
  int delist();

  int fd_ = -1;
  ProcessFd* previous_ = nullptr;
  ProcessFd* next_ = nullptr;
};

}  // namespace regroup::base
