// SPDX-License-Identifier: Apache-2.0
// What a group needs to outlive its members. docs/fault-tolerance.md tells how it is used and what it assumes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "regroup/store.h"
#include "regroup/types.h"

namespace regroup {

// How many members must take part for a group to go on without the others. The same on all members.
enum class Quorum : uint8_t {
  // More than half of all members; or all that are not proven dead. Dead is proven by a member's own host: its process
  // ended. So the last survivor of plain crashes goes on, and of two sides of a cut network at most one.
  normal,
  majority,   // stricter: more than half of all members, however the others were lost
  survivors,  // lifted: all that can be reached. Both sides of a cut network go on
};

// The answer of ProcessGroup::agree: the same on all members that get one.
struct Agreed {
  uint64_t value = 0;        // the bitwise and over the values of all that took part
  std::vector<Rank> failed;  // members that are known to be dead or cut off, ascending
};

struct ShrinkOptions {
  // The group's time-out where none is given. Members that have not come by half of it are left behind.
  std::optional<std::chrono::nanoseconds> timeout;
  Quorum quorum = Quorum::normal;
};

// The members of a group's next life, as one of them sees it.
struct Membership {
  Rank rank = 0;  // of this process
  Rank size = 1;
  // Where the members meet: under a name that no other meeting in that store has, so a new one each time.
  std::shared_ptr<Store> store;          // or:
  std::optional<std::string> store_url;  // as in JoinOptions; neither: the store that the group was joined with
  std::string name;
  std::optional<std::chrono::nanoseconds> timeout;  // the group's where none is given
};

}  // namespace regroup
