// SPDX-License-Identifier: Apache-2.0
#include "net/waker.h"

#include <array>
#include <cerrno>

#include "net/poller.h"

namespace regroup::net {

Result<Waker> Waker::create() {
  Result<base::Fd> epoll = make_epoll();
  if (!epoll.ok()) return epoll.status();
  Result<base::Fd> bell = make_bell();
  if (!bell.ok()) return bell.status();
  Waker waker;
  waker.epoll_ = std::move(*epoll);
  waker.bell_ = std::move(*bell);
  if (Status status = waker.watch(waker.bell(), false); !status.ok()) return status;
  return waker;
}

Status Waker::watch(int fd, bool writable) {
  return epoll_watch(epoll_.get(), fd, writable ? EPOLLIN | EPOLLOUT : EPOLLIN, static_cast<uint64_t>(fd));
}

void Waker::forget(int fd) { epoll_forget(epoll_.get(), fd); }

void Waker::sleep(base::Time deadline) {
  std::array<epoll_event, 16> events;
  for (;;) {
    const int ready = epoll_wait_until(epoll_.get(), events, deadline);
    // A bell that does not fit among the events stays rung and ends the next sleep.
    for (int i = 0; i < ready; ++i) {
      if (events[i].data.u64 == static_cast<uint64_t>(bell())) silence_bell(bell());
    }
    if (ready > 0 || base::Clock::now() >= deadline) return;
  }
}

void Waker::ring(int bell) {
  // A signal handler may ring: leave its victim's errno alone.
  const int saved = errno;
  ring_bell(bell);
  errno = saved;
}

}  // namespace regroup::net
