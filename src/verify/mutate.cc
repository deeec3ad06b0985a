// SPDX-License-Identifier: Apache-2.0
#include "verify/mutate.h"

#include <algorithm>
#include <iterator>

#include "base/hash.h"
#include "verify/subject.h"

namespace regroup::verify {

using plan::Mark;
using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

bool is_message(const Step& step) { return step.kind == StepKind::send || receives(step.kind); }

class Damage {
 public:
  Damage(std::vector<Schedule>& schedules, Rank rank, StepIndex step, std::mt19937_64& random)
      : all_(schedules), rank_(rank), index_(step), random_(random) {}

  // What was done; empty if nothing.
  std::string apply(Mutation mutation) {
    switch (mutation) {
      case Mutation::drop_step:
        return drop_step();
      case Mutation::swap_steps:
        return swap_steps();
      case Mutation::swap_peers:
        return swap_peers();
      case Mutation::retarget_peer:
        return retarget_peer();
      case Mutation::retarget_slice:
        return retarget_slice();
      case Mutation::resize:
        return resize();
      case Mutation::drop_dependency:
        return drop_dependency();
      case Mutation::change_mark:
        return change_mark();
      case Mutation::flip_finish:
        return flip_finish();
      case Mutation::reorder_operands:
        return reorder_operands();
    }
    return {};
  }

 private:
  Schedule& schedule() { return all_[rank_]; }
  Step& step() { return schedule().parts().steps[index_]; }
  uint64_t below(uint64_t end) { return random_() % end; }
  bool toss() { return below(2) == 0; }

  // Messages are counted as they would have been when planned so.
  void renumber() {
    std::vector<uint32_t> sent(all_.size()), received(all_.size());
    for (Step& each : schedule().parts().steps) {
      if (each.kind == StepKind::send) each.message = sent[each.peer]++;
      if (receives(each.kind)) each.message = received[each.peer]++;
    }
  }

  std::string drop_step() {
    const bool hand_on = toss();
    auto parts = schedule().parts();
    const auto own = schedule().after(step());
    std::vector<StepIndex> after;
    for (Step& each : parts.steps) {
      const uint32_t begin = static_cast<uint32_t>(after.size());
      for (const StepIndex earlier : schedule().after(each)) {
        if (earlier == index_ && hand_on) after.insert(after.end(), own.begin(), own.end());
        if (earlier != index_) after.push_back(earlier > index_ ? earlier - 1 : earlier);
      }
      if (&each != &step()) each.after = {begin, static_cast<uint32_t>(after.size()) - begin};
    }
    parts.after = std::move(after);
    parts.steps.erase(parts.steps.begin() + index_);
    renumber();
    return hand_on ? "dropped, its dependencies handed on" : "dropped";
  }

  std::string swap_steps() {
    auto& steps = schedule().parts().steps;
    const size_t other = toss() ? below(steps.size()) : std::min<size_t>(index_ + 1, steps.size() - 1);
    if (other == index_) return {};
    std::swap(steps[index_], steps[other]);
    std::swap(steps[index_].after, steps[other].after);  // these stay where they are
    renumber();
    return "swapped with step " + std::to_string(other);
  }

  std::string swap_peers() {
    auto& steps = schedule().parts().steps;
    Step& other = steps[below(steps.size())];
    if (!is_message(step()) || !is_message(other) || step().peer == other.peer) return {};
    std::swap(step().peer, other.peer);
    renumber();
    return "swapped its peer with another message";
  }

  std::string retarget_peer() {
    const Rank peer = static_cast<Rank>(below(all_.size()));
    if (peer == rank_) return {};
    if (gets(step().kind)) {
      Source& source = schedule().parts().sources[step().sources.begin + below(step().sources.count)];
      if (source.rank == peer || source.rank == rank_) return {};
      source.rank = peer;
    } else {
      if ((!is_message(step()) && step().kind != StepKind::await) || step().peer == peer) return {};
      step().peer = peer;
      renumber();
    }
    return "goes to rank " + std::to_string(peer) + " instead";
  }

  // One of the slices of the step.
  Slice* any_slice() {
    const uint32_t sources = step().sources.count;
    const uint32_t slices = sources + (writes(step().kind) ? 1 : 0);
    if (slices == 0) return nullptr;
    const uint64_t chosen = below(slices);
    return chosen < sources ? &schedule().parts().sources[step().sources.begin + chosen].slice : &step().to;
  }

  std::string retarget_slice() {
    Slice* slice = any_slice();
    if (slice == nullptr || slice->count == 0) return {};
    const Slice before = *slice;
    const uint64_t way = below(3);
    if (way == 0) slice->space = static_cast<Space>(below(3));
    if (way == 1) slice->part = static_cast<uint32_t>(below(all_.size()));
    if (way == 2) slice->offset = below(2 * slice->count + slice->offset + 1);
    if (*slice == before) return {};
    return to_string(before) + " became " + to_string(*slice);
  }

  std::string resize() {
    if (toss()) {
      Slice* slice = any_slice();
      if (slice == nullptr) return {};
      const Slice before = *slice;
      nudge(*slice, below(4));
      return to_string(before) + " became " + to_string(*slice);
    }
    // All slices of the step and, of a message, the other side's.
    const bool more = toss();
    if (!writes(step().kind) && step().kind != StepKind::send) return {};
    nudge_all(rank_, index_, more);
    if (!is_message(step())) return more ? "one element more throughout" : "one element fewer throughout";
    const auto& steps = all_[step().peer].steps();
    for (StepIndex other = 0; other < steps.size(); ++other) {
      const bool counterpart = steps[other].peer == rank_ && steps[other].message == step().message &&
                               is_message(steps[other]) && receives(steps[other].kind) != receives(step().kind);
      if (counterpart) nudge_all(step().peer, other, more);
    }
    return more ? "one element more on both sides" : "one element fewer on both sides";
  }

  static void nudge(Slice& slice, uint64_t way) {
    if (way == 0) ++slice.count;
    if (way == 1) --slice.count;
    if (way == 2) ++slice.offset;
    if (way == 3) --slice.offset;
  }

  void nudge_all(Rank rank, StepIndex index, bool more) {
    auto parts = all_[rank].parts();
    Step& each = parts.steps[index];
    for (uint32_t i = 0; i < each.sources.count; ++i) nudge(parts.sources[each.sources.begin + i].slice, more ? 0 : 1);
    if (writes(each.kind)) nudge(each.to, more ? 0 : 1);
  }

  std::string drop_dependency() {
    if (step().after.count == 0) return {};
    auto& after = schedule().parts().after;
    const size_t chosen = step().after.begin + below(step().after.count);
    const StepIndex earlier = after[chosen];
    std::swap(after[chosen], after[step().after.begin + step().after.count - 1]);
    --step().after.count;
    return "no longer waits for step " + std::to_string(earlier);
  }

  std::string change_mark() {
    if (step().kind != StepKind::notify && step().kind != StepKind::await) return {};
    const Mark before = step().mark;
    const Mark marks[] = {before - 1, before + 1, 1, plan::kDone};
    step().mark = marks[below(std::size(marks))];
    if (step().mark == before) return {};
    return "mark " + std::to_string(before) + " became " + std::to_string(step().mark);
  }

  std::string flip_finish() {
    if (!folds(step().kind)) return {};
    step().finish = !step().finish;
    return step().finish ? "finishes" : "does not finish";
  }

  std::string reorder_operands() {
    if (step().kind == StepKind::receive_reduce) {
      step().received_first = !step().received_first;
      return "folds the other way round";
    }
    if (!folds(step().kind) || step().sources.count < 2) return {};
    Source* first = &schedule().parts().sources[step().sources.begin];
    const uint64_t a = below(step().sources.count), b = below(step().sources.count);
    if (first[a] == first[b]) return {};
    std::swap(first[a], first[b]);
    return "operands " + std::to_string(a) + " and " + std::to_string(b) + " swapped";
  }

  std::vector<Schedule>& all_;
  const Rank rank_;
  const StepIndex index_;
  std::mt19937_64& random_;
};

}  // namespace

namespace {

uint64_t hash_of(const Slice& slice) {
  uint64_t hash = base::mix(static_cast<uint64_t>(slice.space) + 1, slice.part);
  return base::mix(base::mix(hash, slice.offset), slice.count);
}

// Equal for schedules that differ only in how their steps are numbered: what each step does and, in turn, waits for.
std::vector<uint64_t> essence(const Schedule& schedule) {
  std::vector<uint64_t> steps;
  for (const Step& step : schedule.steps()) {
    uint64_t hash = base::mix(static_cast<uint64_t>(step.kind), step.finish * 2 + step.received_first);
    for (const uint64_t field :
         {uint64_t{step.member}, uint64_t{step.peer}, uint64_t{step.mark}, uint64_t{step.message}}) {
      hash = base::mix(hash, field);
    }
    for (const Source& source : schedule.sources(step))
      hash = base::mix(hash, base::mix(source.rank, hash_of(source.slice)));
    if (writes(step.kind)) hash = base::mix(hash, hash_of(step.to));
    std::vector<uint64_t> after;
    for (const StepIndex earlier : schedule.after(step)) after.push_back(steps[earlier]);
    std::sort(after.begin(), after.end());
    for (const uint64_t earlier : after) hash = base::mix(hash, earlier);
    steps.push_back(hash);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

std::string_view name(Mutation mutation) {
  constexpr std::string_view names[] = {"drop_step",      "swap_steps",      "swap_peers",      "retarget_peer",
                                        "retarget_slice", "resize",          "drop_dependency", "change_mark",
                                        "flip_finish",    "reorder_operands"};
  static_assert(std::size(names) == kMutations);
  return static_cast<size_t>(mutation) < std::size(names) ? names[static_cast<size_t>(mutation)] : "?";
}

std::optional<Mutant> mutate(const std::vector<Schedule>& schedules, Mutation mutation, std::mt19937_64& random) {
  const Rank rank = static_cast<Rank>(random() % schedules.size());
  const size_t steps = schedules[rank].steps().size();
  if (steps == 0) return std::nullopt;
  const StepIndex step = static_cast<StepIndex>(random() % steps);
  Mutant mutant{mutation, schedules[rank].steps()[step].kind, rank, step, {}, schedules};
  mutant.text = Damage(mutant.schedules, rank, mutant.step, random).apply(mutation);
  if (mutant.text.empty()) return std::nullopt;
  if (essence(mutant.schedules[rank]) == essence(schedules[rank])) return std::nullopt;
  return mutant;
}

}  // namespace regroup::verify
