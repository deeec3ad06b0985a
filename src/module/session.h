// SPDX-License-Identifier: Apache-2.0
// A group that is open in a module: the C interface as C++, so that what was opened is closed and what was started is
// given back.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "module/module.h"

namespace regroup::module {

enum class Progress : uint8_t { done, pending, failed };

// One at a time calls everything, as module.h (the interface) says.
class Session {
 public:
  struct Host {
    Rank rank = 0, size = 1;
    std::chrono::nanoseconds timeout{};  // for opening
    std::string address;                 // of this rank's host; empty: all are on one
    // Everyone's `bytes` bytes, by rank, into `all`; false: that failed.
    std::function<bool(const void* mine, uint64_t bytes, void* all)> exchange;
    std::function<void()> wake;  // from any thread
  };

  static Result<std::unique_ptr<Session>> open(std::shared_ptr<const Module> module, Host host);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Module& module() const { return *module_; }
  // The group has failed: whatever is under way is to end soon.
  void abort();

  // Operations: an opaque handle each. `failed` sets `failure()`.
  Progress start(const regroup_call& call, void** operation);
  Progress send(Rank peer, uint32_t tag, const void* data, uint64_t bytes, void** operation);
  Progress receive(Rank peer, uint32_t tag, void* data, uint64_t bytes, void** operation);
  Progress test(void* operation);
  // False: the memory stays lent until the session ends.
  bool cancel(void* operation);

  // What the library said last.
  const std::string& failure() const { return failure_; }

 private:
  Session(std::shared_ptr<const Module> module, Host host) : module_(std::move(module)), host_(std::move(host)) {}
  Progress outcome(int code, const regroup_module_error& error);

  static int exchange(void* context, const void* mine, uint64_t bytes, void* all);
  static void wake(void* context);

  std::shared_ptr<const Module> module_;
  Host host_;
  regroup_module_host services_{};
  void* group_ = nullptr;
  bool broken_ = false;
  std::string failure_;
};

}  // namespace regroup::module
