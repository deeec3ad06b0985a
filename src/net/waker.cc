// SPDX-License-Identifier: Apache-2.0
#include "net/waker.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

namespace regroup::net {

namespace {
Status refused(const char* what) {
  return Status(StatusCode::io_error, std::string(what) + " failed: " + std::strerror(errno));
}
}  // namespace

Result<Waker> Waker::create() {
  Waker waker;
  waker.epoll_ = base::Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!waker.epoll_.valid()) return refused("epoll_create1");
  waker.bell_ = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!waker.bell_.valid()) return refused("eventfd");
  if (Status status = waker.watch(waker.bell_.get(), false); !status.ok()) return status;
  return waker;
}

Status Waker::watch(int fd, bool writable) {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  if (errno == ENOENT && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return refused("epoll_ctl");
}

void Waker::forget(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Waker::sleep(base::Time deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - base::Clock::now()).count();
  epoll_event events[16];
  ::epoll_wait(epoll_.get(), events, 16, static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000)));
  uint64_t rung = 0;
  (void)!::read(bell_.get(), &rung, sizeof(rung));
}

void Waker::ring(int bell) {
  const uint64_t one = 1;
  (void)!::write(bell, &one, sizeof(one));
}

}  // namespace regroup::net
