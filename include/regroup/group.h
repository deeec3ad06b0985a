// SPDX-License-Identifier: Apache-2.0
// A process group: ranks that run collective operations together.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "regroup/capabilities.h"
#include "regroup/operation.h"
#include "regroup/status.h"
#include "regroup/survival.h"
#include "regroup/work.h"

namespace regroup {

class ProcessGroup;

// An operation whose arguments were checked and whose plan was made once. Its buffers stay lent only while it runs.
class Prepared {
 public:
  struct State;
  explicit Prepared(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Status run();
  Work start();

 private:
  std::shared_ptr<State> state_;
};

// Thread safe. Copies share one group; the last copy leaves it. Operations run in the order in which they are issued,
// which must be the same on all ranks for collectives; two groups never block each other.
class ProcessGroup {
 public:
  class Impl;

  ProcessGroup() = default;  // no group: valid() is false
  explicit ProcessGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  bool valid() const { return impl_ != nullptr; }
  Rank rank() const;
  Rank size() const;
  // Counts the lives of the group: rises when it shrinks or is reconfigured, never falls.
  uint64_t epoch() const;
  // For each rank of this group its rank in the group that was joined (or last reconfigured).
  const std::vector<Rank>& members() const;

  // Runs the operation and returns when it has ended.
  Status run(const Operation& operation);
  // Starts it; it makes progress without the caller. A refused call gives a Work that has ended with the refusal.
  Work start(Operation operation);
  Result<Prepared> prepare(Operation operation);

  // A group of the ranks that gave the same color, ranked by (key, rank). Every rank calls it; without a color a rank
  // gets no group (valid() is false).
  Result<ProcessGroup> split(std::optional<int64_t> color, int64_t key = 0);
  // A group of `ranks` (of this group), in that order. Only they call it, with the same list.
  Result<ProcessGroup> subgroup(const std::vector<Rank>& ranks);

  // --- outliving members; see docs/fault-tolerance.md. Called by all members that live, in the same order as
  // everything else. They work in a group that a failure has broken.

  // Gives all members that get an answer the same one, though others die meanwhile. Every member's own value takes
  // part, but those of the failed. `timeout` (the group's where none is given) breaks the group; `no_quorum`: too few
  // are left.
  Result<Agreed> agree(uint64_t value, std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  // The members that are left become the group: ranks are dense again and in the old order, the epoch rises, all copies
  // of this handle see it. Operations under way end with `aborted`. `stale_epoch`: the others have gone on without this
  // member; `no_quorum`: too few are left. After an error the group is as broken as before.
  Status shrink(ShrinkOptions options = {});
  // This member goes: it calls leave() where the others call shrink(). The group is left in any case; the status says
  // whether the others have taken note.
  Status leave(std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  // Leaves the life at hand, broken or not, and joins the next with whoever comes to the same meeting: survivors and
  // newcomers (who `join` under that name). After an error the group is broken; another meeting may be tried.
  Status reconfigure(const Membership& membership);

  // Admits the newcomers that have asked for it (JoinOptions::newcomer), if any: they get the ranks behind the members.
  // After an error that does not break groups, the life at hand goes on without them.
  Status grow(std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

  // Ends every operation, started or to come, with `aborted`, here and at the other members. From any thread, any
  // number of times, at once.
  void abort(std::string reason);

  // For operations called from now on that name none. Must be positive.
  Status set_timeout(std::chrono::nanoseconds timeout);
  std::chrono::nanoseconds timeout() const;

  // What broke the group; ok while nothing has.
  Status last_failure() const;
  const Capabilities& capabilities() const;
  // "native over shm", for people.
  std::string description() const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace regroup
