// SPDX-License-Identifier: Apache-2.0
// The one thread a process that reads all groups' control connections. It runs while somebody holds it and sleeps when
// nothing comes. It knows nothing of what the descriptors carry.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/fd.h"
#include "base/fork.h"
#include "base/one_per_process.h"
#include "regroup/status.h"

namespace regroup::net {

class Service {
 public:
  // Something with descriptors to be watched. `ready` is called on the service thread, never for the same source twice
  // at once, with no lock held; it must not block.
  class Source {
   public:
    virtual ~Source() = default;
    virtual void ready(uint32_t key, uint32_t events) = 0;
  };

  // The process's service, started where there is none. The last holder to let go ends the thread and waits for its
  // end, unless it is that thread. The child of a fork gets its own.
  static Result<std::shared_ptr<Service>> acquire();

  // Watches `fd` for epoll `events`, level-triggered, until removed. `key` is passed back. Returns a handle.
  Result<uint64_t> add(std::shared_ptr<Source> source, int fd, uint32_t key, uint32_t events);
  // Any thread. An unknown handle is ignored.
  void change(uint64_t handle, uint32_t events);
  void remove(uint64_t handle);

  // Removes all of `source`'s descriptors and waits until it is not being called, unless called from the service
  // thread.
  void remove_all(const Source* source);

  bool on_service_thread() const { return std::this_thread::get_id() == thread_->get_id(); }

 private:
  struct Watched {
    std::shared_ptr<Source> source;
    int fd = -1;
    uint32_t key = 0;
  };

  friend class base::OnePerProcess<Service>;
  Service() = default;
  ~Service();
  static Result<std::shared_ptr<Service>> make();
  static void release(Service* service);
  Status start();
  void run();
  void dispatch(uint64_t handle, uint32_t events);

  const uint64_t generation_ = base::fork_generation();
  base::ProcessFd epoll_;
  base::ProcessFd bell_;
  std::unique_ptr<std::thread> thread_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<uint64_t, Watched> watched_;
  uint64_t next_handle_ = 1;  // 0 is the bell
  const Source* running_ = nullptr;
  bool stopping_ = false;
  bool let_go_here_ = false;  // by a callback: the thread itself deletes the service
};

}  // namespace regroup::net
