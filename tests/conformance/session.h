// SPDX-License-Identifier: Apache-2.0
// A group in child processes (each rank one, or all ranks as threads of one) that works through a list of items.
// Results come back through shared memory, so that also those of ranks that crash or hang are known.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "conformance/item.h"
#include "conformance/member.h"
#include "regroup/join.h"

namespace regroup::conformance {

struct SessionOptions {
  uint64_t seed = 1;
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);  // of the group: it ends what hangs
  std::string directory;                                        // for the ranks to find each other
};

struct ItemResult {
  Verdict verdict = Verdict::none;  // none: not reached
  std::string text;
  uint32_t us = 0;  // on the slowest rank
};

// The parent's side; single-threaded. The destructor ends children that still run.
class Session {
 public:
  // Starts the children. All items belong to `key`.
  Session(GroupKey key, std::vector<Item> items, SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const GroupKey& key() const { return key_; }
  const std::vector<Item>& items() const { return items_; }
  // Readable when all children have ended.
  int ended_fd() const { return ended_.get(); }
  // How many items all ranks have finished.
  size_t done() const;
  // Whether nothing has moved for longer than the group's time-out allows; ends the children then.
  bool end_if_hung();
  // Once they have ended: a result for each item up to the first one that not all ranks finished, or for all.
  std::vector<ItemResult> results();

 private:
  struct Shared;
  void run_child(Rank first, Rank count, const std::string& store_url);
  void run_rank(Rank rank, JoinOptions join) const;
  ItemResult merge(size_t item) const;
  std::string blame(size_t item) const;

  GroupKey key_;
  std::vector<Item> items_;
  SessionOptions options_;
  Shared* shared_ = nullptr;
  size_t shared_bytes_ = 0;
  std::vector<pid_t> children_;
  std::vector<int> statuses_;  // as waitpid gave them
  base::Fd ended_;
  uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point moved_;
  bool hung_ = false;
};

}  // namespace regroup::conformance
