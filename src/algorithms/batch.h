// SPDX-License-Identifier: Apache-2.0
// Fuses the schedules of several collectives into one, which runs them all at the same time. It knows nothing of what
// they do.
#pragma once

#include <cstdint>
#include <span>

#include "plan/schedule.h"

namespace regroup::algorithms {

// More members than this don't fit into Step::member and the marks.
inline constexpr uint32_t kMostMembers = 65535;

// The greatest mark below kDone that a member of a batch of so many may use. It depends on the number of members alone,
// so that all ranks agree on it; it is at least 255.
plan::Mark marks_in_batch(size_t members);

// The least block with which a vector of `count` elements, cut into blocks that are marked one by one, fits into a
// batch of so many members. Whoever plans a member takes the greater of this and the block it would have taken. (Agreed
// if `count` is: planners mark by block only what all ranks know.)
uint64_t least_block_in_batch(uint64_t count, size_t members);

// One rank's schedules, one a collective, to one schedule with the same steps. Every rank gives the same collectives,
// by the same algorithms, in the same order; then the result is as right and as free of deadlock as its members:
// - Messages between two ranks are numbered anew, member after member, on both sides alike.
// - Marks of member m lie above those of member m − 1, and a rank publishes them in that order. So a mark awaited from
//   a member can't come from an earlier one. And the wait ends: the steps of member 0 wait for steps of member 0 only,
//   those of member m, in addition, for the marks of members before it. (A member's marks thus also wait for this
//   rank's last read in the members before it; messages of all members mix freely.)
// - Each member has its own spaces and its own scratch (Step::member).
// No member may itself be a batch. A member that uses a mark above marks_in_batch is a bug: give it blocks of at least
// least_block_in_batch, and where a planner marks by host (all_gather hierarchical) and there are more hosts than
// marks, take one that sends messages.
plan::Schedule plan_batch(std::span<const plan::Schedule> members);

}  // namespace regroup::algorithms
