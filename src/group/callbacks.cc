// SPDX-License-Identifier: Apache-2.0
#include "group/callbacks.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace regroup::group {

namespace {

// Ends with the process: callbacks that were not run by then are dropped. The queue holds one entry for each callback
// that a user has registered and that is due, which bounds it by what users hold anyway.
class CallbackThread {
 public:
  ~CallbackThread() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void add(std::function<void()> callback) {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    queue_.push_back(std::move(callback));
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
    changed_.notify_all();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (queue_.empty()) {
        changed_.wait_for(lock, std::chrono::seconds(1));
        continue;
      }
      const std::function<void()> callback = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      callback();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
  bool stop_ = false;
};

}  // namespace

void run_on_callback_thread(std::function<void()> callback) {
  static CallbackThread thread;
  thread.add(std::move(callback));
}

}  // namespace regroup::group
