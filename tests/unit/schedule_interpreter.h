// SPDX-License-Identifier: Apache-2.0
// Runs the schedules of all ranks on concrete values, in a random order that their dependencies, messages and marks
// permit, and takes memory away from ranks that have not entered yet or have returned. It knows nothing of planners.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plan/schedule.h"

namespace regroup::plan {

using Values = std::vector<uint64_t>;

// One rank's memory in one operation: the lengths of the parts, and which memory input and output share.
struct RankMemory {
  std::vector<uint64_t> input_parts, output_parts;
  // The element of the input where the output begins (output in input), or of the output where the input begins; −1:
  // apart.
  int64_t output_at = -1, input_at = -1;
  Values input;  // what the input holds on entry
};

// What a fold does: `last` is applied by `finish`.
struct Operator {
  uint64_t (*fold)(uint64_t, uint64_t);
  uint64_t (*last)(uint64_t);
};

struct Outcome {
  std::string failure;                       // empty: all went well
  std::vector<std::vector<Values>> outputs;  // by rank and member, as found when the rank's steps were done
  bool left_early = false;                   // a rank was done before every rank had entered
};

class Interpreter {
 public:
  // `rendezvous`: a send is done only when it has been received; else as soon as its data has been taken.
  Interpreter(const std::vector<Schedule>& schedules, const std::vector<std::vector<RankMemory>>& memory, Operator op,
              bool rendezvous, uint64_t seed);
  Outcome run();

 private:
  static constexpr uint64_t kPoison = 0xdeadbeefdeadbeef;

  // Where the spaces of one member lie in the memory of its rank.
  struct Spaces {
    uint64_t base[3] = {0, 0, 0};
    std::vector<uint64_t> parts[3];  // where each part begins, and the end
  };

  struct State {
    Values memory;  // of all spaces of all members
    std::vector<Spaces> members;
    std::vector<uint32_t> waits_for;
    std::vector<std::vector<StepIndex>> followers;
    std::vector<StepIndex> ready;
    std::vector<std::vector<Values>> taken;   // by receiver, by message: data under way
    std::vector<std::vector<bool>> sendable;  // by receiver, by message: whether a send is ready (rendezvous)
    Mark mark = 0;
    uint32_t left = 0;
    // A rank is looked at in one of so many turns, and a step of it is done in one of so many of those.
    uint32_t idleness = 1;
    std::vector<uint32_t> delay;
    bool entered = false, returned = false;
  };

  static size_t number(Space space) { return static_cast<size_t>(space); }
  static std::vector<uint64_t> begins(const std::vector<uint64_t>& lengths) {
    std::vector<uint64_t> begin = {0};
    for (const uint64_t length : lengths) begin.push_back(begin.back() + length);
    return begin;
  }

  static Spaces place(const RankMemory& memory, uint64_t scratch, uint64_t& next);
  void prepare(Rank rank);
  void enter(Rank rank);
  void leave(Rank rank);
  uint64_t* at(Rank rank, uint16_t member, const Slice& slice);
  bool possible(Rank rank, const Step& step);
  void execute(Rank rank, StepIndex index);
  void complete(Rank rank, StepIndex index);
  Values message(Rank from, Rank to, uint32_t number);
  void fold_into(Rank rank, const Step& step, const std::vector<Values>& operands);
  bool turn();

  const std::vector<Schedule>& schedules_;
  const std::vector<std::vector<RankMemory>>& memory_;  // by rank and member
  Operator op_;
  bool rendezvous_;
  std::mt19937_64 random_;
  std::vector<State> ranks_;
  uint64_t nothing_ = 0;  // where empty slices point
  Outcome outcome_;
};

inline Interpreter::Interpreter(const std::vector<Schedule>& schedules,
                                const std::vector<std::vector<RankMemory>>& memory, Operator op, bool rendezvous,
                                uint64_t seed)
    : schedules_(schedules),
      memory_(memory),
      op_(op),
      rendezvous_(rendezvous),
      random_(seed),
      ranks_(schedules.size()) {
  outcome_.outputs.resize(schedules.size());
  for (Rank rank = 0; rank < schedules.size(); ++rank) prepare(rank);
}

inline Interpreter::Spaces Interpreter::place(const RankMemory& memory, uint64_t scratch_count, uint64_t& next) {
  Spaces spaces;
  const size_t in = number(Space::input), out = number(Space::output), scratch = number(Space::scratch);
  spaces.parts[in] = begins(memory.input_parts);
  spaces.parts[out] = begins(memory.output_parts);
  spaces.parts[scratch] = {0, scratch_count};
  if (memory.input_at < 0) spaces.base[in] = next, next += spaces.parts[in].back();
  if (memory.output_at < 0) spaces.base[out] = next, next += spaces.parts[out].back();
  if (memory.input_at >= 0) spaces.base[in] = spaces.base[out] + static_cast<uint64_t>(memory.input_at);
  if (memory.output_at >= 0) spaces.base[out] = spaces.base[in] + static_cast<uint64_t>(memory.output_at);
  spaces.base[scratch] = next;
  next += scratch_count;
  return spaces;
}

inline void Interpreter::prepare(Rank rank) {
  State& state = ranks_[rank];
  const Schedule& schedule = schedules_[rank];
  uint64_t next = 0;
  for (uint16_t member = 0; member < memory_[rank].size(); ++member) {
    state.members.push_back(place(memory_[rank][member], schedule.scratch_count(member), next));
  }
  state.memory.assign(next, kPoison);
  state.idleness = random_() % 3 == 0 ? 8 : 1;
  for (size_t i = 0; i < schedule.steps().size(); ++i) state.delay.push_back(random_() % 8 == 0 ? 4 : 1);

  const auto& steps = schedule.steps();
  state.left = static_cast<uint32_t>(steps.size());
  state.waits_for.resize(steps.size());
  state.followers.resize(steps.size());
  state.taken.resize(schedules_.size());
  state.sendable.resize(schedules_.size());
  for (StepIndex i = 0; i < steps.size(); ++i) {
    for (const StepIndex earlier : schedule.after(steps[i])) state.followers[earlier].push_back(i);
    state.waits_for[i] = steps[i].after.count;
    if (steps[i].kind != StepKind::send) continue;
    state.taken[steps[i].peer].resize(steps[i].message + 1);
    state.sendable[steps[i].peer].resize(steps[i].message + 1);
  }
}

inline void Interpreter::enter(Rank rank) {
  State& state = ranks_[rank];
  state.entered = true;
  for (size_t member = 0; member < state.members.size(); ++member) {
    const uint64_t base = state.members[member].base[number(Space::input)];
    std::ranges::copy(memory_[rank][member].input, state.memory.begin() + static_cast<int64_t>(base));
  }
  const auto& steps = schedules_[rank].steps();
  for (StepIndex i = 0; i < steps.size(); ++i) {
    if (steps[i].after.count == 0) state.ready.push_back(i);
  }
}

// The rank's caller owns the memory again: whoever still looks at it sees something else.
inline void Interpreter::leave(Rank rank) {
  State& state = ranks_[rank];
  state.returned = true;
  outcome_.left_early |= !std::ranges::all_of(ranks_, &State::entered);
  for (const Spaces& spaces : state.members) {
    const auto output = state.memory.begin() + static_cast<int64_t>(spaces.base[number(Space::output)]);
    const auto end = output + static_cast<int64_t>(spaces.parts[number(Space::output)].back());
    outcome_.outputs[rank].emplace_back(output, end);
  }
  std::fill(state.memory.begin(), state.memory.end(), kPoison);
}

inline uint64_t* Interpreter::at(Rank rank, uint16_t member, const Slice& slice) {
  State& state = ranks_[rank];
  const Spaces& spaces = state.members[member];
  const auto& parts = spaces.parts[number(slice.space)];
  if (slice.count == 0) return &nothing_;
  if (slice.part + 1u >= parts.size() || parts[slice.part] + slice.offset + slice.count > parts.back()) {
    outcome_.failure =
        "rank " + std::to_string(rank) + ": a slice of " + std::string(name(slice.space)) + " is outside";
    return nullptr;
  }
  return state.memory.data() + spaces.base[number(slice.space)] + parts[slice.part] + slice.offset;
}

inline bool Interpreter::possible(Rank rank, const Step& step) {
  switch (step.kind) {
    case StepKind::await:
      return ranks_[step.peer].mark >= step.mark;
    case StepKind::receive:
    case StepKind::receive_reduce: {
      const auto& sent = ranks_[step.peer].sendable[rank];
      return step.message < sent.size() && sent[step.message];
    }
    case StepKind::get:
    case StepKind::get_reduce:
      return std::ranges::all_of(schedules_[rank].sources(step),
                                 [&](const Source& s) { return ranks_[s.rank].entered; });
    default:
      return true;
  }
}

inline void Interpreter::complete(Rank rank, StepIndex index) {
  State& state = ranks_[rank];
  for (const StepIndex follower : state.followers[index]) {
    if (--state.waits_for[follower] == 0) state.ready.push_back(follower);
  }
  --state.left;
}

inline Values Interpreter::message(Rank from, Rank to, uint32_t message_number) {
  if (!rendezvous_) return ranks_[from].taken[to][message_number];
  const Schedule& sender = schedules_[from];
  for (StepIndex i = 0; i < sender.steps().size(); ++i) {
    const Step& step = sender.steps()[i];
    if (step.kind != StepKind::send || step.peer != to || step.message != message_number) continue;
    const Slice& slice = sender.sources(step)[0].slice;
    const uint64_t* data = at(from, step.member, slice);
    complete(from, i);
    return data == nullptr ? Values() : Values(data, data + slice.count);
  }
  return {};
}

inline void Interpreter::fold_into(Rank rank, const Step& step, const std::vector<Values>& operands) {
  uint64_t* to = at(rank, step.member, step.to);
  if (to == nullptr) return;
  for (uint64_t i = 0; i < step.to.count; ++i) {
    uint64_t value = operands[0][i];
    for (size_t k = 1; k < operands.size(); ++k) value = op_.fold(value, operands[k][i]);
    to[i] = step.finish ? op_.last(value) : value;
  }
}

inline void Interpreter::execute(Rank rank, StepIndex index) {
  const Schedule& schedule = schedules_[rank];
  const Step& step = schedule.steps()[index];
  std::vector<Values> operands;
  for (const Source& source : schedule.sources(step)) {
    const uint64_t* data = at(source.rank, step.member, source.slice);
    if (data == nullptr) return;
    operands.emplace_back(data, data + source.slice.count);
  }
  if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
    operands.push_back(message(step.peer, rank, step.message));
    if (operands[0].size() != step.to.count)
      outcome_.failure = "a message has another length than its receiver expects";
  }
  if (step.kind == StepKind::receive_reduce && outcome_.failure.empty()) {
    const uint64_t* to = at(rank, step.member, step.to);
    if (to != nullptr)
      operands.insert(step.received_first ? operands.end() : operands.begin(), Values(to, to + step.to.count));
  }
  if (!outcome_.failure.empty()) return;
  if (step.kind == StepKind::send) {
    ranks_[rank].sendable[step.peer][step.message] = true;
    if (rendezvous_) return;  // complete when it is received
    ranks_[rank].taken[step.peer][step.message] = operands[0];
  } else if (step.kind == StepKind::notify) {
    ranks_[rank].mark = step.mark;
  } else if (step.kind != StepKind::await) {
    fold_into(rank, step, operands);
  }
  complete(rank, index);
}

// Tries each ready step of each rank once, in random order. False: nothing was possible.
inline bool Interpreter::turn() {
  bool moved = false;
  std::vector<Rank> order(ranks_.size());
  for (Rank rank = 0; rank < order.size(); ++rank) order[rank] = rank;
  std::shuffle(order.begin(), order.end(), random_);
  for (const Rank rank : order) {
    State& state = ranks_[rank];
    if (state.returned || random_() % state.idleness != 0) continue;
    if (!state.entered) enter(rank), moved = true;
    std::vector<StepIndex> ready;
    ready.swap(state.ready);
    std::shuffle(ready.begin(), ready.end(), random_);
    for (const StepIndex index : ready) {
      if (possible(rank, schedules_[rank].steps()[index]) && random_() % state.delay[index] == 0) {
        execute(rank, index);
        moved = true;
      } else {
        moved |= possible(rank, schedules_[rank].steps()[index]);
        state.ready.push_back(index);
      }
      if (!outcome_.failure.empty()) return false;
    }
    if (state.left == 0) leave(rank), moved = true;
  }
  return moved;
}

inline Outcome Interpreter::run() {
  // A turn may be idle because the ranks were left out by chance; hundreds in a row are not.
  for (int idle = 0; idle < 300 && outcome_.failure.empty();) {
    const bool over = std::ranges::all_of(ranks_, [](const State& state) { return state.returned; });
    if (over) return outcome_;
    idle = turn() ? 0 : idle + 1;
  }
  if (outcome_.failure.empty()) outcome_.failure = "deadlock";
  return outcome_;
}

}  // namespace regroup::plan
