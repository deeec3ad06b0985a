// SPDX-License-Identifier: Apache-2.0
#include "net/service.h"

#include <pthread.h>

#include <array>

#include "base/system_error.h"
#include "base/thread.h"
#include "net/poller.h"

namespace regroup::net {

Result<std::shared_ptr<Service>> Service::acquire() { return base::OnePerProcess<Service>::acquire(); }

Result<std::shared_ptr<Service>> Service::make() {
  std::shared_ptr<Service> service(new Service, &Service::release);
  if (Status status = service->start(); !status.ok()) return status;
  return service;
}

Status Service::start() {
  Result<base::Fd> epoll = make_epoll();
  if (!epoll.ok()) return epoll.status();
  Result<base::Fd> bell = make_bell();
  if (!bell.ok()) return bell.status();
  epoll_ = base::ProcessFd(std::move(*epoll));
  bell_ = base::ProcessFd(std::move(*bell));
  if (Status status = epoll_watch(epoll_.get(), bell_.get(), EPOLLIN, 0); !status.ok()) return status;
  auto thread = std::make_unique<std::thread>();
  if (Status status = base::start_thread(thread.get(), [this] { run(); }); !status.ok()) return status;
  thread_ = std::move(thread);
  ::pthread_setname_np(thread_->native_handle(), "regroup-control");
  return {};
}

void Service::release(Service* service) {
  // In the child of a fork the thread is gone and its locks may be held for ever: leave the copy be.
  if (service->generation_ != base::fork_generation()) return;
  if (service->thread_ == nullptr || !service->on_service_thread()) {
    delete service;
    return;
  }
  // Let go by one of its own callbacks: the thread deletes the service when it leaves its loop, right after.
  const std::lock_guard lock(service->mutex_);
  service->stopping_ = service->let_go_here_ = true;
}

Service::~Service() {
  if (thread_ == nullptr) return;
  if (on_service_thread()) {
    thread_->detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ring_bell(bell_.get());
  thread_->join();
}

Result<uint64_t> Service::add(std::shared_ptr<Source> source, int fd, uint32_t key, uint32_t events) {
  const std::lock_guard lock(mutex_);
  const uint64_t handle = next_handle_++;
  if (Status status = epoll_watch(epoll_.get(), fd, events, handle); !status.ok()) return status;
  watched_.emplace(handle, Watched{std::move(source), fd, key});
  return handle;
}

void Service::change(uint64_t handle, uint32_t events) {
  const std::lock_guard lock(mutex_);
  const auto at = watched_.find(handle);
  // The descriptor is in the set already, so this cannot run out of anything.
  if (at != watched_.end()) static_cast<void>(epoll_watch(epoll_.get(), at->second.fd, events, handle));
}

void Service::remove(uint64_t handle) {
  std::shared_ptr<Source> last;  // dropped after the lock
  const std::lock_guard lock(mutex_);
  const auto at = watched_.find(handle);
  if (at == watched_.end()) return;
  epoll_forget(epoll_.get(), at->second.fd);
  last = std::move(at->second.source);
  watched_.erase(at);
}

void Service::remove_all(const Source* source) {
  std::shared_ptr<Source> last;
  std::unique_lock lock(mutex_);
  for (auto at = watched_.begin(); at != watched_.end();) {
    if (at->second.source.get() != source) {
      ++at;
      continue;
    }
    epoll_forget(epoll_.get(), at->second.fd);
    last = std::move(at->second.source);
    at = watched_.erase(at);
  }
  if (!on_service_thread()) idle_.wait(lock, [&] { return running_ != source; });
}

void Service::run() {
  base::take_short_turns();
  std::array<epoll_event, 64> events;
  const auto patience = std::chrono::hours(1);  // every wait ends; this one has nothing to do then
  for (;;) {
    const int ready = epoll_wait_until(epoll_.get(), events, base::deadline_after(patience));
    for (int i = 0; i < ready; ++i) {
      if (events[i].data.u64 != 0) dispatch(events[i].data.u64, events[i].events);
    }
    std::unique_lock lock(mutex_);
    if (stopping_) break;
  }
  // Whether the last holder is waiting for us elsewhere or was one of our own callbacks decides who deletes.
  if (let_go_here_) delete this;
}

void Service::dispatch(uint64_t handle, uint32_t events) {
  std::shared_ptr<Source> source;
  uint32_t key;
  {
    const std::lock_guard lock(mutex_);
    const auto at = watched_.find(handle);
    if (at == watched_.end()) return;  // removed by an earlier callback of this round
    source = at->second.source;
    key = at->second.key;
    running_ = source.get();
  }
  source->ready(key, events);
  {
    const std::lock_guard lock(mutex_);
    running_ = nullptr;
  }
  idle_.notify_all();
}

}  // namespace regroup::net
