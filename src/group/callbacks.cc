// SPDX-License-Identifier: Apache-2.0
#include "group/callbacks.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/thread.h"

namespace regroup::group {

namespace {

// Ends with the process: callbacks that were not run by then are dropped. The queue holds one entry for each callback
// that a user has registered and that is due, which bounds it by what users hold anyway.
class CallbackThread {
 public:
  // Never destroyed: groups may outlive the statics at exit. The child of a fork, which lacks the thread, has its own.
  static CallbackThread& of_process() {
    static const Lifetime lifetime;
    return *current;
  }

  void add(std::function<void()> callback) {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    queue_.push_back(std::move(callback));
    // Where there is no thread to be had, the next callback tries again.
    if (!thread_.joinable()) (void)base::start_thread(&thread_, [this] { loop(); });
    changed_.notify_all();
  }

 private:
  static CallbackThread* current;
  struct Lifetime {
    Lifetime() {
      current = new CallbackThread;
      ::pthread_atfork(nullptr, nullptr, [] { current = new CallbackThread; });
    }
    ~Lifetime() { current->stop(); }
  };

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    if (!thread_.joinable()) return;
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();  // a callback ends the process
    } else {
      thread_.join();
    }
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (queue_.empty()) {
        changed_.wait_for(lock, std::chrono::seconds(1));
        continue;
      }
      std::function<void()> callback = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      callback();
      callback = nullptr;  // what it holds may be a group: not to be let go of under the lock
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
  bool stop_ = false;
};

CallbackThread* CallbackThread::current = nullptr;

}  // namespace

void run_on_callback_thread(std::function<void()> callback) { CallbackThread::of_process().add(std::move(callback)); }

}  // namespace regroup::group
