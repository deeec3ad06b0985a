// SPDX-License-Identifier: Apache-2.0
// Starts a program's ranks on this host and stays until the whole tree of processes has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace regroup::tool {

struct LaunchOptions {
  uint32_t ranks = 1;
  std::vector<std::string> program;                          // with its arguments
  std::optional<std::chrono::nanoseconds> timeout;           // for the whole
  std::chrono::nanoseconds grace = std::chrono::seconds(3);  // from SIGTERM to SIGKILL
  bool json = false;                                         // a summary on standard output
};

// Returns the exit status for `regroup run`: 0, or the first failure's (128 + signal for a rank that a signal ended),
// 124 after the time-out.
//
// Two processes supervise, so that either's death ends the tree: this one, which people and schedulers see, and its
// child, the keeper, which serves the store and starts the ranks.
int launch(const LaunchOptions& options);

}  // namespace regroup::tool
