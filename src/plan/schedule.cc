// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include <algorithm>

#include "base/assert.h"

namespace regroup::plan {

StepIndex Schedule::add(Step step, std::span<const Source> sources, std::span<const StepIndex> after) {
  step.member = member_;
  step.sources = {static_cast<uint32_t>(sources_.size()), static_cast<uint32_t>(sources.size())};
  sources_.insert(sources_.end(), sources.begin(), sources.end());
  step.after.begin = static_cast<uint32_t>(after_.size());
  const StepIndex index = static_cast<StepIndex>(steps_.size());
  for (const StepIndex earlier : after) {
    if (earlier == kNoStep) continue;
    REGROUP_ASSERT(earlier < index);
    after_.push_back(earlier);
  }
  step.after.count = static_cast<uint32_t>(after_.size()) - step.after.begin;
  steps_.push_back(step);
  return index;
}

uint32_t Schedule::next_message(std::vector<uint32_t>& counters, Rank peer) {
  REGROUP_ASSERT(peer < size_ && peer != rank_);
  if (counters.empty()) counters.resize(size_);
  return counters[peer]++;
}

StepIndex Schedule::copy(Slice from, Slice to, After after) {
  REGROUP_ASSERT(from.count == to.count);
  if (to.count == 0) return kNoStep;
  Step step;
  step.kind = StepKind::copy;
  step.to = to;
  const Source source{rank_, from};
  return add(step, {&source, 1}, after);
}

StepIndex Schedule::reduce(std::span<const Source> sources, Slice to, bool finish, After after) {
  if (to.count == 0) return kNoStep;
  Step step;
  step.kind = StepKind::reduce;
  step.finish = finish;
  step.to = to;
  for (const Source& source : sources) REGROUP_ASSERT(source.slice.count == to.count && source.rank == rank_);
  return add(step, sources, after);
}

StepIndex Schedule::send(Rank to, Slice from, After after) {
  if (from.count == 0) return kNoStep;
  Step step;
  step.kind = StepKind::send;
  step.peer = to;
  step.message = next_message(sent_, to);
  const Source source{rank_, from};
  return add(step, {&source, 1}, after);
}

StepIndex Schedule::receive(Rank from, Slice to, After after) {
  if (to.count == 0) return kNoStep;
  Step step;
  step.kind = StepKind::receive;
  step.peer = from;
  step.message = next_message(received_, from);
  step.to = to;
  return add(step, {}, after);
}

StepIndex Schedule::receive_reduce(Rank from, Slice to, bool received_first, bool finish, After after) {
  if (to.count == 0) return kNoStep;
  Step step;
  step.kind = StepKind::receive_reduce;
  step.finish = finish;
  step.received_first = received_first;
  step.peer = from;
  step.message = next_message(received_, from);
  step.to = to;
  return add(step, {}, after);
}

StepIndex Schedule::send_signal(Rank to, After after) {
  Step step;
  step.kind = StepKind::send;
  step.peer = to;
  step.message = next_message(sent_, to);
  const Source source{rank_, Slice{Space::scratch, 0, 0, 0}};
  return add(step, {&source, 1}, after);
}

StepIndex Schedule::receive_signal(Rank from, After after) {
  Step step;
  step.kind = StepKind::receive;
  step.peer = from;
  step.message = next_message(received_, from);
  step.to = Slice{Space::scratch, 0, 0, 0};
  return add(step, {}, after);
}

StepIndex Schedule::get(Rank from, Slice at_peer, Slice to, After after) {
  if (from == rank_) return copy(at_peer, to, after);
  REGROUP_ASSERT(at_peer.count == to.count && from < size_);
  if (to.count == 0) return kNoStep;
  one_sided_ = true;
  Step step;
  step.kind = StepKind::get;
  step.peer = from;
  step.to = to;
  const Source source{from, at_peer};
  return add(step, {&source, 1}, after);
}

StepIndex Schedule::get_reduce(std::span<const Source> sources, Slice to, bool finish, After after) {
  const bool local = std::all_of(sources.begin(), sources.end(), [this](const Source& s) { return s.rank == rank_; });
  if (local) return reduce(sources, to, finish, after);
  if (to.count == 0) return kNoStep;
  for (const Source& source : sources) REGROUP_ASSERT(source.slice.count == to.count && source.rank < size_);
  one_sided_ = true;
  Step step;
  step.kind = StepKind::get_reduce;
  step.finish = finish;
  step.to = to;
  return add(step, sources, after);
}

StepIndex Schedule::notify(Mark mark, After after) { return notify(mark, std::span<const StepIndex>(after)); }

StepIndex Schedule::notify(Mark mark, std::span<const StepIndex> after) {
  one_sided_ = true;
  Step step;
  step.kind = StepKind::notify;
  step.mark = mark;
  if (last_notify_ != kNoStep) REGROUP_ASSERT(steps_[last_notify_].mark < mark);
  const StepIndex index = add(step, {}, after);
  also_after(index, {&last_notify_, 1});
  last_notify_ = index;
  return index;
}

StepIndex Schedule::await(Rank peer, Mark mark, After after) {
  REGROUP_ASSERT(peer < size_ && peer != rank_);
  one_sided_ = true;
  Step step;
  step.kind = StepKind::await;
  step.peer = peer;
  step.mark = mark;
  return add(step, {}, after);
}

void Schedule::also_after(StepIndex step, std::span<const StepIndex> more) {
  REGROUP_ASSERT(step + 1 == steps_.size());
  for (const StepIndex earlier : more) {
    if (earlier == kNoStep) continue;
    REGROUP_ASSERT(earlier < step);
    after_.push_back(earlier);
    ++steps_[step].after.count;
  }
}

uint64_t Schedule::add_scratch(uint64_t count, uint16_t member) {
  if (member >= scratch_.size()) scratch_.resize(member + 1u);
  const uint64_t first = scratch_[member];
  scratch_[member] += count;
  return first;
}

void Schedule::begin_member(uint16_t member) {
  member_ = member;
  if (member >= scratch_.size()) scratch_.resize(member + 1u);
}

std::string_view name(StepKind kind) {
  constexpr std::string_view names[] = {"copy", "reduce",     "send",   "receive", "receive_reduce",
                                        "get",  "get_reduce", "notify", "await"};
  return static_cast<size_t>(kind) < std::size(names) ? names[static_cast<size_t>(kind)] : "?";
}

std::string_view name(Space space) {
  constexpr std::string_view names[] = {"input", "output", "scratch"};
  return static_cast<size_t>(space) < std::size(names) ? names[static_cast<size_t>(space)] : "?";
}

namespace {

std::string to_string(const Slice& slice) {
  std::string text(name(slice.space));
  text += '[' + std::to_string(slice.part) + "]+" + std::to_string(slice.offset) + '#' + std::to_string(slice.count);
  return text;
}

std::string describe(const Schedule& schedule, const Step& step) {
  std::string text(name(step.kind));
  if (step.member != 0) text += " member " + std::to_string(step.member);
  if (step.kind == StepKind::notify) return text + " mark " + std::to_string(step.mark);
  if (step.kind == StepKind::await)
    return text + " rank " + std::to_string(step.peer) + " mark " + std::to_string(step.mark);
  for (const Source& source : schedule.sources(step)) {
    text += ' ';
    if (source.rank != schedule.rank()) text += "rank " + std::to_string(source.rank) + ' ';
    text += to_string(source.slice);
  }
  if (step.kind == StepKind::send) return text + " → rank " + std::to_string(step.peer);
  if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce)
    text += " rank " + std::to_string(step.peer);
  text += " → " + to_string(step.to);
  if (step.finish) text += " finish";
  return text;
}

}  // namespace

std::string to_string(const Schedule& schedule) {
  std::string text;
  StepIndex index = 0;
  for (const Step& step : schedule.steps()) {
    text += std::to_string(index++) + ": " + describe(schedule, step);
    if (step.after.count > 0) {
      text += "  after";
      for (const StepIndex earlier : schedule.after(step)) text += ' ' + std::to_string(earlier);
    }
    text += '\n';
  }
  return text;
}

}  // namespace regroup::plan
