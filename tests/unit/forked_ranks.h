// SPDX-License-Identifier: Apache-2.0
// Runs a test's body as the ranks of a group, each a process of its own that may be killed or stopped.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "regroup/regroup.h"
#include "unit/wires.h"

namespace regroup {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kForks = false;  // it follows no threads into a forked child
#else
inline constexpr bool kForks = true;
#endif

// A file store that goes with this.
class FreshStore {
 public:
  FreshStore() {
    char name[] = "/tmp/regroup-test-XXXXXX";
    if (mkdtemp(name) != nullptr) directory_ = name;
  }
  ~FreshStore() {
    unlink((directory_ + "/store").c_str());
    rmdir(directory_.c_str());
  }
  FreshStore(const FreshStore&) = delete;
  std::string url() const { return "file://" + directory_ + "/store"; }

 private:
  std::string directory_;
};

// In a forked child: a rank. Ends the process with what `body` returns.
[[noreturn]] inline void be_rank(const JoinOptions& options, const std::function<int(ProcessGroup&)>& body) {
  int code = 100;
  {
    auto group = join(options);
    if (group.ok()) code = body(*group);
    if (!group.ok()) std::fprintf(stderr, "rank %u: %s\n", *options.rank, group.status().to_string().c_str());
  }
  std::fflush(nullptr);
  _exit(code);
}

// How each rank ended, as waitpid tells it. Those that hang are ended after `limit` seconds, by SIGALRM. The group's
// time-out is `timeout`, or `limit` where none is given.
inline std::vector<int> forked(Rank size, const Wire& wire, const std::function<int(ProcessGroup&)>& body,
                               unsigned limit = 20, std::chrono::nanoseconds timeout = {}) {
  if (timeout == std::chrono::nanoseconds(0)) timeout = std::chrono::seconds(limit);
  const FreshStore store;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    std::signal(SIGALRM, SIG_DFL);
    alarm(limit);
    JoinOptions options = options_for(wire, rank, size, timeout);
    options.store_url = store.url();
    be_rank(options, body);
  }
  std::vector<int> ends(size, -1);
  for (Rank rank = 0; rank < size; ++rank) waitpid(children[rank], &ends[rank], 0);
  return ends;
}

}  // namespace regroup
