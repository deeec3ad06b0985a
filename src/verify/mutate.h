// SPDX-License-Identifier: Apache-2.0
// Damages correct schedules in the ways in which planners go wrong, to see whether the verifier notices.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "plan/schedule.h"

namespace regroup::verify {

enum class Mutation : uint8_t {
  drop_step,       // with its dependencies handed on to those who waited for it, or lost
  swap_steps,      // two steps of a rank take each other's place
  swap_peers,      // two messages of a rank take each other's peer
  retarget_peer,   // a message, read or await goes to another rank
  retarget_slice,  // another space, part or position
  resize,          // one element more or fewer, or one further on; on one side, or consistently
  drop_dependency,
  change_mark,
  flip_finish,
  reorder_operands,  // received_first, or two sources of a fold
};
inline constexpr int kMutations = 10;
std::string_view name(Mutation mutation);

struct Mutant {
  Mutation mutation = Mutation::drop_step;
  plan::StepKind kind = plan::StepKind::copy;  // of the step before
  Rank rank = 0;
  plan::StepIndex step = 0;  // as numbered before
  std::string text;          // what was done
  std::vector<plan::Schedule> schedules;
};

// nullopt where the random choice fell on a step that can't be damaged in this way, or where nothing would change.
std::optional<Mutant> mutate(const std::vector<plan::Schedule>& schedules, Mutation mutation, std::mt19937_64& random);

}  // namespace regroup::verify
