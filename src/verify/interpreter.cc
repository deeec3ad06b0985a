// SPDX-License-Identifier: Apache-2.0
#include "verify/interpreter.h"

#include <algorithm>
#include <random>

#include "base/hash.h"
#include "verify/layout.h"
#include "verify/subject.h"

namespace regroup::verify {

using plan::Problem;
using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

// Two operators at once: under `sum` all orders of folding are equal, under `ordered` no two are.
struct Element {
  uint64_t sum = 0;
  uint64_t ordered = 0;

  friend bool operator==(const Element&, const Element&) = default;
};
using Elements = std::vector<Element>;

Element fold(const Element& a, const Element& b) { return {a.sum + b.sum, base::mix(a.ordered, b.ordered)}; }
Element finish(const Element& a) { return {base::mix(a.sum, 1), base::mix(a.ordered, 2)}; }

class Interpreter {
 public:
  Interpreter(const Member& member, std::span<const Schedule> schedules, uint64_t seed)
      : member_(member), schedules_(schedules), random_(seed), ranks_(schedules.size()) {
    rendezvous_ = random_() % 2 == 0;
    const bool by_rank = random_() % 2 == 0;  // some ranks far behind the others
    for (Rank rank = 0; rank < size(); ++rank) {
      State& state = ranks_[rank];
      uint64_t end = 0;
      state.layout = lay_out(member.problems[rank], schedules[rank].scratch_count(), member.in_place, &end);
      state.memory = noise(end);
      state.input = noise(state.layout[Space::input].total());
      store(rank, whole(rank, Space::input), state.input);
      state.done.assign(schedules[rank].steps().size(), false);
      state.left = state.done.size();
      const uint64_t weight = by_rank ? random_() % 1024 : 0;
      for (size_t i = 0; i <= state.done.size(); ++i) state.priorities.push_back((weight << 10) + random_() % 1024);
    }
  }

  std::string run() {
    while (wrong_.empty() && run_one()) {
    }
    if (!wrong_.empty()) return wrong_;
    for (Rank rank = 0; rank < size(); ++rank) {
      if (!ranks_[rank].returned) return "rank " + std::to_string(rank) + " never returns";
    }
    return check_same();
  }

 private:
  struct State {
    MemberLayout layout;
    Elements memory, input, output;
    std::vector<bool> done;
    std::vector<uint64_t> priorities;  // of the steps, and of entering
    size_t left = 0;                   // steps
    plan::Mark mark = 0;
    bool entered = false, returned = false;
  };

  Rank size() const { return static_cast<Rank>(schedules_.size()); }
  Collective collective() const { return member_.problems[0].collective; }

  Elements noise(uint64_t count) {
    Elements elements(count);
    for (Element& element : elements) element = {random_(), random_()};
    return elements;
  }

  Slice whole(Rank rank, Space space) const { return {space, 0, 0, ranks_[rank].layout[space].total()}; }

  std::vector<Piece> pieces(Rank rank, const Slice& slice) const {
    std::vector<Piece> found;
    if (slice.count > 0) ranks_[rank].layout[slice.space].resolve(slice, found);
    return found;
  }
  Elements load(Rank rank, const Slice& slice) const {
    Elements elements;
    for (const Piece& piece : pieces(rank, slice)) {
      const auto begin = ranks_[rank].memory.begin() + static_cast<ptrdiff_t>(piece.begin);
      elements.insert(elements.end(), begin, begin + static_cast<ptrdiff_t>(piece.count));
    }
    return elements;
  }
  void store(Rank rank, const Slice& slice, const Elements& elements) {
    auto next = elements.begin();
    for (const Piece& piece : pieces(rank, slice)) {
      std::copy_n(next, piece.count, ranks_[rank].memory.begin() + static_cast<ptrdiff_t>(piece.begin));
      next += static_cast<ptrdiff_t>(piece.count);
    }
  }

  // Of everything that can happen now, lets the one with the highest priority happen. False if nothing can.
  bool run_one() {
    Rank best_rank = plan::kNoRank;
    StepIndex best = 0;
    uint64_t best_priority = 0;
    for (Rank rank = 0; rank < size(); ++rank) {
      const State& state = ranks_[rank];
      for (StepIndex index = 0; index <= state.done.size(); ++index) {
        if (!can_run(rank, index)) continue;
        if (best_rank != plan::kNoRank && state.priorities[index] <= best_priority) continue;
        best_rank = rank;
        best = index;
        best_priority = state.priorities[index];
      }
    }
    if (best_rank == plan::kNoRank) return false;
    State& state = ranks_[best_rank];
    if (best == state.done.size()) {
      state.entered = true;
    } else {
      execute(best_rank, schedules_[best_rank].steps()[best]);
      state.done[best] = true;
      --state.left;
    }
    if (state.left == 0) leave(best_rank);
    return true;
  }

  bool posted(Rank rank, StepIndex index) const {
    const State& state = ranks_[rank];
    const auto after = schedules_[rank].after(schedules_[rank].steps()[index]);
    return state.entered &&
           std::all_of(after.begin(), after.end(), [&state](StepIndex step) { return state.done[step]; });
  }

  bool can_run(Rank rank, StepIndex index) const {
    const State& state = ranks_[rank];
    if (index == state.done.size()) return !state.entered;
    if (state.done[index] || !posted(rank, index)) return false;
    const Step& step = schedules_[rank].steps()[index];
    switch (step.kind) {
      case StepKind::send: {
        const StepIndex receive = counterpart(step.peer, rank, step.message, false);
        return !rendezvous_ || posted(step.peer, receive);
      }
      case StepKind::receive:
      case StepKind::receive_reduce:
        return ranks_[step.peer].done[counterpart(step.peer, rank, step.message, true)];
      case StepKind::await:
        return ranks_[step.peer].mark >= step.mark;
      case StepKind::get:
      case StepKind::get_reduce: {
        const auto sources = schedules_[rank].sources(step);
        return std::all_of(sources.begin(), sources.end(), [this](const Source& s) { return ranks_[s.rank].entered; });
      }
      default:
        return true;
    }
  }

  // The step at `at` that sends to (or receives from) `peer` message number `message`.
  StepIndex counterpart(Rank at, Rank peer, uint32_t message, bool send) const {
    const auto& steps = schedules_[at].steps();
    const auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
      const bool kind = send ? step.kind == StepKind::send : receives(step.kind);
      return kind && step.peer == peer && step.message == message;
    });
    return static_cast<StepIndex>(found - steps.begin());
  }

  void execute(Rank rank, const Step& step) {
    const auto sources = schedules_[rank].sources(step);
    switch (step.kind) {
      case StepKind::send:
        messages_.push_back({rank, step.peer, step.message, load(rank, sources[0].slice)});
        return;
      case StepKind::notify:
        ranks_[rank].mark = std::max(ranks_[rank].mark, step.mark);
        return;
      case StepKind::await:
        return;
      case StepKind::copy:
      case StepKind::get:
        return store(rank, step.to, load(sources[0].rank, sources[0].slice));
      case StepKind::receive:
        return store(rank, step.to, take(rank, step));
      case StepKind::receive_reduce: {
        const Elements own = load(rank, step.to), arrived = take(rank, step);
        return store_fold(rank, step, step.received_first ? std::vector{arrived, own} : std::vector{own, arrived});
      }
      case StepKind::reduce:
      case StepKind::get_reduce: {
        std::vector<Elements> operands;
        for (const Source& source : sources) operands.push_back(load(source.rank, source.slice));
        return store_fold(rank, step, operands);
      }
    }
  }

  void store_fold(Rank rank, const Step& step, const std::vector<Elements>& operands) {
    Elements result = operands[0];
    for (size_t i = 0; i < result.size(); ++i) {
      for (size_t operand = 1; operand < operands.size(); ++operand) result[i] = fold(result[i], operands[operand][i]);
      if (step.finish) result[i] = finish(result[i]);
    }
    store(rank, step.to, result);
  }

  Elements take(Rank rank, const Step& step) {
    const auto found = std::find_if(messages_.begin(), messages_.end(), [&](const Message& message) {
      return message.from == step.peer && message.to == rank && message.number == step.message;
    });
    return found->elements;
  }

  // All steps are done: the result is there, and from now on the memory belongs to somebody else.
  void leave(Rank rank) {
    State& state = ranks_[rank];
    if (!state.entered || state.returned) return;
    state.returned = true;
    state.output = load(rank, whole(rank, Space::output));
    check_output(rank);
    if (!member_.in_place && load(rank, whole(rank, Space::input)) != state.input) {
      wrong_ = "rank " + std::to_string(rank) + "'s input changed";
    }
    if (collective() == Collective::barrier) {
      for (const State& other : ranks_) {
        if (!other.entered) wrong_ = "rank " + std::to_string(rank) + " left the barrier too early";
      }
    }
    state.memory = noise(state.memory.size());
  }

  void check_output(Rank rank) {
    const Elements expected = expected_output(rank);
    for (size_t i = 0; i < expected.size() && wrong_.empty(); ++i) {
      const Element& element = ranks_[rank].output[i];
      const bool same =
          reduces(collective()) && !member_.single_fold ? element.sum == expected[i].sum : element == expected[i];
      if (!same) wrong_ = "rank " + std::to_string(rank) + " has a wrong result at element " + std::to_string(i);
    }
  }

  // Elements of rank `from`'s input, from where part `part` starts.
  void append_input(Elements& elements, Rank from, uint32_t part, uint64_t count) const {
    if (count == 0) return;
    const auto begin =
        ranks_[from].input.begin() + static_cast<ptrdiff_t>(ranks_[from].layout[Space::input].start(part));
    elements.insert(elements.end(), begin, begin + static_cast<ptrdiff_t>(count));
  }

  Elements expected_output(Rank rank) const {
    const SpaceLayout& output = ranks_[rank].layout[Space::output];
    const Rank root = member_.problems[0].root;
    Elements expected;
    for (uint32_t part = 0; part < output.parts(); ++part) {
      const uint64_t count = output.count(part);
      switch (collective()) {
        case Collective::broadcast:
          append_input(expected, root, 0, count);
          break;
        case Collective::scatter:
          append_input(expected, root, rank, count);
          break;
        case Collective::gather:
        case Collective::all_gather:
          append_input(expected, part, 0, count);
          break;
        case Collective::all_to_all:
          append_input(expected, part, rank, count);
          break;
        default:
          append_fold(expected, collective() == Collective::reduce_scatter ? rank : 0, count);
      }
    }
    return expected;
  }

  void append_fold(Elements& expected, uint32_t part, uint64_t count) const {
    Elements total;
    for (Rank from = 0; from < size(); ++from) {
      Elements own;
      append_input(own, from, part, count);
      if (from == 0) total = own;
      for (size_t i = 0; i < own.size() && from > 0; ++i) total[i] = fold(total[i], own[i]);
    }
    for (const Element& element : total) expected.push_back(finish(element));
  }

  // Bit by bit, all ranks have the same.
  std::string check_same() const {
    if (collective() != Collective::all_reduce) return {};
    for (Rank rank = 1; rank < size(); ++rank) {
      if (ranks_[rank].output != ranks_[0].output)
        return "rank " + std::to_string(rank) + "'s result differs from rank 0's";
    }
    return {};
  }

  struct Message {
    Rank from, to;
    uint32_t number;
    Elements elements;
  };

  const Member& member_;
  std::span<const Schedule> schedules_;
  std::mt19937_64 random_;
  std::vector<State> ranks_;
  std::vector<Message> messages_;
  bool rendezvous_ = false;  // sends complete only when their receive is posted
  std::string wrong_;
};

}  // namespace

std::string interpret(const Member& member, std::span<const Schedule> schedules, uint64_t seed) {
  return Interpreter(member, schedules, seed).run();
}

}  // namespace regroup::verify
