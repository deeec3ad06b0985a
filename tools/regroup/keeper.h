// SPDX-License-Identifier: Apache-2.0
// The process that has the ranks as children: serves their store, starts them, passes signals on, and ends the tree
// when the first fails, when all are done, or when it is told to.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher.h"

namespace regroup::tool {

// What supervisors wait for instead of dying of it.
sigset_t supervised_signals();

// Expects the supervised signals to be blocked.
class Keeper {
 public:
  explicit Keeper(const LaunchOptions& options) : options_(options), begin_(Steady::now()) {}
  // The exit status for the whole.
  int run();

 private:
  using Steady = std::chrono::steady_clock;

  bool start_ranks(const std::string& host, const std::string& port);
  [[noreturn]] void become_rank(uint32_t rank, const std::vector<std::string>& environment) const;
  void wait_for_signal(std::optional<Steady::time_point> until);
  void reap();
  void rank_ended(uint32_t rank, int status);
  void forward(int signal);
  void end_tree();
  void report() const;
  size_t running() const;

  const LaunchOptions& options_;
  Steady::time_point begin_;
  std::vector<pid_t> ranks_;  // 0 once ended
  std::optional<uint32_t> first_failed_;
  int status_ = 0;
  bool ending_ = false;  // SIGTERM was sent, or the user's signal passed on
  Steady::time_point kill_at_{};
};

}  // namespace regroup::tool
