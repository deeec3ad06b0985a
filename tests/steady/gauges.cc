// SPDX-License-Identifier: Apache-2.0
#include "steady/gauges.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocated = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocated;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(alignment, whole);
  if (memory == nullptr && bytes > 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other forms of new and delete come to these.
void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace regroup::steady {

uint64_t allocations() { return allocated; }

uint64_t page_faults() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return static_cast<uint64_t>(used.ru_minflt);
}

struct SystemCalls::Shared {
  static constexpr uint64_t kKinds = 512;
  enum State : uint32_t { starting, allowed, counting, failed };
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> all;
  std::atomic<uint64_t> of[kKinds];
};

namespace {

// In the tracer. Only what is safe after a fork of a process with threads.
[[noreturn]] void trace(pid_t thread, SystemCalls::Shared& shared) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (shared.state.load() == SystemCalls::Shared::starting) ::sched_yield();
  int status = 0;
  const bool stopped = ::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) == 0 &&
                       ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
                       ::waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status);
  if (!stopped) {
    shared.state.store(SystemCalls::Shared::failed);
    ::_exit(1);
  }
  shared.state.store(SystemCalls::Shared::counting);
  int signal = 0;
  while (::ptrace(PTRACE_SYSCALL, thread, nullptr, signal) == 0 && ::waitpid(thread, &status, __WALL) == thread &&
         WIFSTOPPED(status)) {
    signal = 0;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      if (status >> 16 == 0) signal = WSTOPSIG(status);
      continue;
    }
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) {
      shared.state.store(SystemCalls::Shared::failed);
      ::_exit(1);
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    shared.all.fetch_add(1);
    if (info.entry.nr < SystemCalls::Shared::kKinds) shared.of[info.entry.nr].fetch_add(1);
  }
  ::_exit(0);
}

}  // namespace

SystemCalls::SystemCalls() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  shared_ = static_cast<Shared*>(memory);
  const pid_t thread = ::gettid();
  tracer_ = ::fork();
  if (tracer_ == 0) trace(thread, *shared_);
  if (tracer_ < 0) return;
  ::prctl(PR_SET_PTRACER, tracer_, 0, 0, 0);  // where a security module wants to be asked
  shared_->state.store(Shared::allowed);
  while (shared_->state.load() == Shared::allowed) ::sched_yield();
  // Whether the kernel also tells which call it is shows with the first one.
  ::getppid();
}

SystemCalls::~SystemCalls() {
  if (tracer_ > 0) {
    ::kill(tracer_, SIGKILL);
    ::waitpid(tracer_, nullptr, 0);
  }
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

bool SystemCalls::counting() const { return tracer_ > 0 && shared_->state.load() == Shared::counting; }

uint64_t SystemCalls::of(long number) const { return shared_->of[number].load(); }

uint64_t SystemCalls::all() const { return shared_->all.load(); }

}  // namespace regroup::steady
