// SPDX-License-Identifier: Apache-2.0
// An object that all users in a process share: made when the first one asks, gone with the last one. The child of a
// fork gets its own.
#pragma once

#include <pthread.h>

#include <memory>
#include <mutex>

#include "base/fork.h"
#include "regroup/status.h"

namespace regroup::base {

// `T::make()` makes an object, as a Result<std::shared_ptr<T>>; what its deleter does in a child that inherited the
// pointer is T's affair.
template <typename T>
class OnePerProcess {
 public:
  static Result<std::shared_ptr<T>> acquire() {
    const std::unique_lock lock = lock_current();
    Current& now = current();
    if (now.generation == fork_generation()) {
      if (std::shared_ptr<T> object = now.object.lock()) return object;
    }
    Result<std::shared_ptr<T>> made = T::make();
    if (!made.ok()) return made;
    now.object = *made;
    now.generation = fork_generation();
    return made;
  }

 private:
  struct Current {
    std::mutex mutex;
    std::weak_ptr<T> object;
    uint64_t generation = 0;
  };

  // Never destroyed: users may outlive the statics at exit.
  static Current& current() {
    static Current* instance = new Current;
    return *instance;
  }

  // A child forked while another thread held the lock must not wait for that thread, which it does not have.
  static std::unique_lock<std::mutex> lock_current() {
    // Handlers that prepare a fork run last registered first, and this lock is taken before the registry's: register
    // later.
    fork_generation();
    [[maybe_unused]] static const int registered = ::pthread_atfork(
        [] { current().mutex.lock(); }, [] { current().mutex.unlock(); }, [] { current().mutex.unlock(); });
    return std::unique_lock(current().mutex);
  }
};

}  // namespace regroup::base
