// SPDX-License-Identifier: Apache-2.0
// Rabenseifner's all-reduce: a reduce-scatter by recursive halving, then an all-gather by recursive doubling. At
// distance 1, 2, 4, … partners split the window that both hold, each sends the half that it gives up and folds the
// one it keeps; on the way back they exchange the finished halves. Where P is no power of two, the even rank of
// each of the first pairs hands its vector to the odd one, sits out, and is handed the result.
// Steps 2 log2 P (+ 2) · bytes sent 2(P − 1)/P · n (pairs: + n) · no scratch · best between latency and bandwidth.
// Rabenseifner, "Optimization of collective reduction operations", 2004.
#include <utility>
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {
namespace {

struct Level {
  Rank peer;
  Slice kept;      // in output
  Slice given;     // in output
  StepIndex sent;  // the step that gave it up
};

Slice in(Space space, Slice slice) { return {space, slice.part, slice.offset, slice.count}; }

// On return `*last` is the step that finished the window that this rank keeps.
std::vector<Level> halve(Schedule& schedule, const PowerOfTwo& group, Slice window, Space held, StepIndex* last) {
  const Rank rank = schedule.rank();
  const Rank position = group.position(rank);
  std::vector<Level> levels;
  for (Rank distance = 1; distance < group.size; distance *= 2) {
    const Slice upper{window.space, 0, window.offset + (window.count + 1) / 2, window.count / 2};
    const Slice lower{window.space, 0, window.offset, window.count - upper.count};
    Level level{group.rank_at(position ^ distance), lower, upper, kNoStep};
    if ((position & distance) != 0) std::swap(level.kept, level.given);

    level.sent = schedule.send(level.peer, in(held, level.given), {*last});
    StepIndex mine = *last;
    if (held == Space::input) mine = schedule.copy(in(held, level.kept), level.kept);
    *last = schedule.receive_reduce(level.peer, level.kept, level.peer < rank, distance * 2 == group.size, {mine});
    held = Space::output;
    window = level.kept;
    levels.push_back(level);
  }
  return levels;
}

}  // namespace

Schedule plan_all_reduce_rabenseifner(const Problem& problem) {
  const Rank rank = problem.rank;
  Schedule schedule(rank, problem.size);
  const Slice input{Space::input, 0, 0, problem.count};
  const Slice output{Space::output, 0, 0, problem.count};
  const PowerOfTwo group(problem.size);
  if (problem.size == 1) {
    reduce_alone(schedule, input, output);
    return schedule;
  }
  if (!group.works(rank)) {
    const StepIndex sent = schedule.send(rank + 1, input);
    schedule.receive(rank + 1, output, {sent});
    return schedule;
  }
  Space held = Space::input;
  StepIndex last = kNoStep;
  if (group.paired(rank)) {
    const StepIndex copied = schedule.copy(input, output);
    last = schedule.receive_reduce(rank - 1, output, /*received_first=*/true, /*finish=*/false, {copied});
    held = Space::output;
  }
  const std::vector<Level> levels = halve(schedule, group, output, held, &last);

  // The way back: each level's kept window is whole once those below it are.
  std::vector<StepIndex> whole = {last};
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    send_after(schedule, level->peer, level->kept, whole);
    whole.push_back(schedule.receive(level->peer, level->given, {level->sent}));
  }
  if (group.paired(rank)) send_after(schedule, rank - 1, output, whole);
  return schedule;
}

}  // namespace regroup::algorithms
