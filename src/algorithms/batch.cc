// SPDX-License-Identifier: Apache-2.0
#include "algorithms/batch.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"

namespace regroup::algorithms {

using plan::kDone;
using plan::Mark;
using plan::Schedule;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

// The marks of one member are 1 … stride; the last one stands for kDone.
Mark stride_of(size_t members) { return kDone / static_cast<Mark>(std::max<size_t>(members, 1)); }

Mark mark_in_batch(Mark mark, size_t member, size_t members) {
  const Mark stride = stride_of(members);
  REGROUP_ASSERT(mark > 0 && (mark == kDone || mark < stride));
  // What the last member calls the end is the end of the whole, since it follows the marks of all others.
  if (mark == kDone && member + 1 == members) return kDone;
  return static_cast<Mark>(member) * stride + std::min(mark, stride);
}

// Adds `step` of `member` with no dependencies yet; it has the same content but for `mark`.
StepIndex add_again(Schedule& batch, const Schedule& member, const Step& step, Mark mark) {
  const auto sources = member.sources(step);
  switch (step.kind) {
    case StepKind::copy:
      return batch.copy(sources[0].slice, step.to);
    case StepKind::reduce:
      return batch.reduce(sources, step.to, step.finish);
    case StepKind::send:
      if (sources[0].slice.count == 0) return batch.send_signal(step.peer);
      return batch.send(step.peer, sources[0].slice);
    case StepKind::receive:
      if (step.to.count == 0) return batch.receive_signal(step.peer);
      return batch.receive(step.peer, step.to);
    case StepKind::receive_reduce:
      return batch.receive_reduce(step.peer, step.to, step.received_first, step.finish);
    case StepKind::get:
      return batch.get(sources[0].rank, sources[0].slice, step.to);
    case StepKind::get_reduce:
      return batch.get_reduce(sources, step.to, step.finish);
    case StepKind::notify:
      return batch.notify(mark);
    case StepKind::await:
      return batch.await(step.peer, mark);
  }
  REGROUP_ASSERT(false);
  return plan::kNoStep;
}

}  // namespace

Mark marks_in_batch(size_t members) {
  REGROUP_ASSERT(members <= kMostMembers);
  return stride_of(members) - 1;
}

uint64_t least_block_in_batch(uint64_t count, size_t members) {
  const uint64_t marks = marks_in_batch(members);
  return std::max<uint64_t>(1, count / marks + (count % marks != 0 ? 1 : 0));
}

Schedule plan_batch(std::span<const Schedule> members) {
  REGROUP_ASSERT(members.size() <= kMostMembers);
  if (members.empty()) return Schedule();
  Schedule batch(members[0].rank(), members[0].size());
  std::vector<StepIndex> after;
  for (size_t index = 0; index < members.size(); ++index) {
    const Schedule& member = members[index];
    REGROUP_ASSERT(member.rank() == batch.rank() && member.size() == batch.size() && member.members() == 1);
    batch.begin_member(static_cast<uint16_t>(index));
    batch.add_scratch(member.scratch_count(), static_cast<uint16_t>(index));
    const StepIndex first = static_cast<StepIndex>(batch.steps().size());
    for (const Step& step : member.steps()) {
      const bool marked = step.kind == StepKind::notify || step.kind == StepKind::await;
      const StepIndex added =
          add_again(batch, member, step, marked ? mark_in_batch(step.mark, index, members.size()) : step.mark);
      after.clear();
      for (const StepIndex earlier : member.after(step)) after.push_back(first + earlier);
      batch.also_after(added, after);
    }
  }
  return batch;
}

}  // namespace regroup::algorithms
