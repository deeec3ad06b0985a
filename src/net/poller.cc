// SPDX-License-Identifier: Apache-2.0
#include "net/poller.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#include "base/assert.h"
#include "base/system_error.h"

namespace regroup::net {

Result<base::Fd> make_epoll() {
  base::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return base::system_error("cannot make an epoll instance");
  return epoll;
}

Result<base::Fd> make_bell() {
  base::Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return base::system_error("cannot make an eventfd");
  return bell;
}

Status epoll_watch(int epoll, int fd, uint32_t events, uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno == EEXIST && ::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return base::system_error("cannot watch descriptor " + std::to_string(fd));
}

void epoll_forget(int epoll, int fd) { ::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr); }

namespace {

int wait_in_milliseconds(int epoll, std::span<epoll_event> events, base::Duration left) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  const int milliseconds = static_cast<int>(std::min<int64_t>(whole, INT_MAX));
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), milliseconds);
}

}  // namespace

int epoll_wait_until(int epoll, std::span<epoll_event> events, base::Time deadline) {
  static std::atomic<bool> nanoseconds_known{true};
  const base::Duration left = std::max(base::Duration(0), base::Duration(deadline - base::Clock::now()));
  int ready;
  if (nanoseconds_known.load(std::memory_order_relaxed)) {
    const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    ready = static_cast<int>(
        ::syscall(SYS_epoll_pwait2, epoll, events.data(), static_cast<int>(events.size()), &timeout, nullptr, 0));
    // Before Linux 5.11, and under sandboxes that do not know the call.
    if (ready < 0 && (errno == ENOSYS || errno == EPERM)) {
      nanoseconds_known.store(false, std::memory_order_relaxed);
      ready = wait_in_milliseconds(epoll, events, left);
    }
  } else {
    ready = wait_in_milliseconds(epoll, events, left);
  }
  if (ready >= 0) return ready;
  REGROUP_ASSERT(errno == EINTR);
  return 0;
}

void ring_bell(int bell) {
  const uint64_t one = 1;
  // Fails only when the counter is full: then it rings already.
  [[maybe_unused]] const ssize_t written = ::write(bell, &one, sizeof one);
}

void silence_bell(int bell) {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(bell, &count, sizeof count);
}

}  // namespace regroup::net
