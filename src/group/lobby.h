// SPDX-License-Identifier: Apache-2.0
// Where newcomers ask to be admitted to a running group, and members find them: keys of a store,
//   regroup/<name>/lobby/asked         counts those that asked; a newcomer's number is its ticket, from 1
//   regroup/<name>/lobby/invited       counts those that were invited, in the order of their tickets
//   regroup/<name>/lobby/ticket/<n>    the invitation: "<rank> <size> <meeting>"
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "regroup/status.h"
#include "regroup/store.h"
#include "regroup/types.h"

namespace regroup::group {

struct Invitation {
  Rank rank = 0, size = 1;
  std::string meeting;
};

class Lobby {
 public:
  // `store` outlives it.
  Lobby(Store& store, const std::string& name) : store_(store), prefix_("regroup/" + name + "/lobby/"), name_(name) {}

  // A newcomer's side: asks, and waits to be invited.
  Result<Invitation> ask(std::chrono::nanoseconds timeout);

  // A member's side: how many wait to be invited; at most as many as a group can take in at once.
  Result<uint64_t> waiting();
  // The name under which the members of the life after `epoch` meet.
  std::string meeting_after(uint64_t epoch) const { return name_ + "/life/" + std::to_string(epoch + 1); }
  // Invites the first `newcomers` that wait, as the ranks behind `members`.
  Status invite(const std::string& meeting, Rank members, Rank newcomers);

 private:
  static constexpr int64_t kMostAtOnce = 4096;

  Store& store_;
  std::string prefix_;
  std::string name_;
};

}  // namespace regroup::group
