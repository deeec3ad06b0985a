// SPDX-License-Identifier: Apache-2.0
// What a thread costs the machine, counted without a clock: allocations, system calls, page faults.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace regroup::steady {

// Calls of operator new by this thread so far, in whatever library.
uint64_t allocations();

// Minor page faults of this thread so far.
uint64_t page_faults();

// System calls of the thread that makes this, counted by a child process that traces it. A thread that calls nothing is
// not held up; each call takes some microseconds longer. What the C library answers without the kernel (the time) is
// none.
class SystemCalls {
 public:
  SystemCalls();
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  // False where this machine lets nobody trace.
  bool counting() const;
  // So far, of one kind (SYS_…) or of all.
  uint64_t of(long number) const;
  uint64_t all() const;

  struct Shared;

 private:
  Shared* shared_ = nullptr;
  pid_t tracer_ = -1;
};

}  // namespace regroup::steady
