// SPDX-License-Identifier: Apache-2.0
#include "contest/buffers.h"

#include <algorithm>
#include <cstring>

namespace regroup::contest {

namespace {

// What outputs hold before a call whose outputs are checked, and parts that an in-place call must not read.
constexpr int kNoValue = 0x5a;

bool part_each(Collective c, bool input) {
  if (c == Collective::all_to_all) return true;
  return input ? c == Collective::scatter || c == Collective::reduce_scatter
               : c == Collective::gather || c == Collective::all_gather;
}

// In place there is one buffer, as large as the larger side.
uint64_t input_parts(const Task& task) {
  if (task.collective == Collective::barrier) return 0;
  return part_each(task.collective, true) || (task.in_place && part_each(task.collective, false)) ? task.ranks : 1;
}

uint64_t output_parts(const Turn& turn) {
  const Collective c = turn.task->collective;
  if (c == Collective::barrier) return 0;
  if (!turn.at_root() && (c == Collective::reduce || c == Collective::gather)) return 0;
  return part_each(c, false) ? turn.task->ranks : 1;
}

}  // namespace

bool Buffers::make(const Task& task, Rank rank, Contender& contender) {
  rule_ = {task.type, task.op, reduces(task.collective), conformance::Values::exact, 1};
  turn_.task = &task;
  turn_.rank = rank;
  turn_.input_parts = input_parts(task);
  turn_.output_parts = output_parts(turn_);
  const uint64_t most = *std::max_element(task.parts, task.parts + task.sizes) * size_of(task.type);
  const auto take = [&](uint64_t parts) { return contender.take(most * parts + 64); };
  turn_.input = take(turn_.input_parts);
  turn_.output = task.in_place ? turn_.input : take(turn_.output_parts);
  if (turn_.input == nullptr || turn_.output == nullptr) return false;
  pristine_.resize(most * turn_.input_parts);
  if (task.check) expected_.resize(most * turn_.output_parts);
  return true;
}

void Buffers::resize(uint64_t part) {
  const Task& task = *turn_.task;
  turn_.part = part;
  rule_.seed = part;
  // In place, gathers read but the rank's own part; the values of the others must not be right by chance.
  const bool own_part_only = task.in_place && part_each(task.collective, false) && !part_each(task.collective, true);
  for (uint64_t at = 0; at < turn_.input_parts; ++at) {
    std::byte* to = pristine_.data() + at * turn_.part_bytes();
    if (own_part_only && at != turn_.rank)
      std::memset(to, kNoValue, turn_.part_bytes());
    else
      conformance::fill(rule_, turn_.rank, own_part_only ? 0 : at, 0, part, to);
  }
  if (task.check) expect();
}

void Buffers::expect() {
  const Task& task = *turn_.task;
  for (uint64_t at = 0; at < turn_.output_parts; ++at) {
    std::byte* to = expected_.data() + at * turn_.part_bytes();
    const Rank from = static_cast<Rank>(at);
    switch (task.collective) {
      case Collective::broadcast:
        conformance::fill(rule_, task.root, 0, 0, turn_.part, to);
        break;
      case Collective::scatter:
        conformance::fill(rule_, task.root, turn_.rank, 0, turn_.part, to);
        break;
      case Collective::gather:
      case Collective::all_gather:
        conformance::fill(rule_, from, 0, 0, turn_.part, to);
        break;
      case Collective::all_to_all:
        conformance::fill(rule_, from, turn_.rank, 0, turn_.part, to);
        break;
      case Collective::reduce_scatter:
        conformance::expect_reduction(rule_, task.ranks, turn_.rank, 0, turn_.part, to);
        break;
      default:
        conformance::expect_reduction(rule_, task.ranks, 0, 0, turn_.part, to);
        break;
    }
  }
}

void Buffers::write_inputs() {
  const uint64_t bytes = turn_.input_parts * turn_.part_bytes();
  if (bytes > 0) std::memcpy(turn_.input, pristine_.data(), bytes);
  // When outputs are checked, none may be left from the call before.
  const uint64_t results = turn_.output_parts * turn_.part_bytes();
  if (turn_.task->check && !turn_.task->in_place && results > 0) std::memset(turn_.output, kNoValue, results);
}

bool Buffers::right() const {
  const Task& task = *turn_.task;
  // In place, the one part that these write is where the input part was.
  const bool inside = task.in_place && (task.collective == Collective::reduce_scatter ||
                                        (task.collective == Collective::scatter && turn_.at_root()));
  const std::byte* got = inside ? turn_.output + turn_.rank * turn_.part_bytes() : turn_.output;
  return conformance::first_difference(rule_, task.ranks, false, got, expected_.data(),
                                       turn_.output_parts * turn_.part) == conformance::kNone;
}

}  // namespace regroup::contest
