// SPDX-License-Identifier: Apache-2.0
// Bruck's all-to-all, for equal counts: slot j of rank r is what r has for rank r + j. For each bit d of j, in
// rising order, rank r sends all slots that have it, in one message, to rank r + d; after the last bit slot j
// holds what rank r − j had for r. A slot is packed from wherever it arrived, so that nothing is unpacked in
// between. In place too: a part of the output is written when the same part of the input has been packed.
// Steps ⌈log2 P⌉ · bytes sent about log2(P)/2 · n · scratch about log2(P) · n · best when latency dominates.
// Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", 1997.
#include <vector>

#include "algorithms/planners.h"
#include "algorithms/planning.h"

namespace regroup::algorithms {
namespace {

struct Slot {
  Slice at;
  StepIndex arrived = kNoStep;
  StepIndex packed = kNoStep;  // the first time, from the input
};

}  // namespace

Schedule plan_all_to_all_bruck(const Problem& problem) {
  const Rank rank = problem.rank;
  const Rank size = problem.size;
  const uint64_t count = problem.counts[0];
  Schedule schedule(rank, size);
  std::vector<Slot> slots(size);
  for (Rank j = 0; j < size; ++j) slots[j].at = {Space::input, (rank + j) % size, 0, count};

  for (Rank distance = 1; distance < size; distance *= 2) {
    std::vector<Rank> moving;
    for (Rank j = distance; j < size; ++j) {
      if ((j & distance) != 0) moving.push_back(j);
    }
    const uint64_t together = moving.size() * count;
    const Slice leaving{Space::scratch, 0, schedule.add_scratch(together), together};
    const Slice coming{Space::scratch, 0, schedule.add_scratch(together), together};
    std::vector<StepIndex> packed;
    for (size_t k = 0; k < moving.size(); ++k) {
      Slot& slot = slots[moving[k]];
      packed.push_back(schedule.copy(slot.at, {Space::scratch, 0, leaving.offset + k * count, count}, {slot.arrived}));
      if (slot.packed == kNoStep) slot.packed = packed.back();
      slot.at = {Space::scratch, 0, coming.offset + k * count, count};
    }
    send_after(schedule, (rank + distance) % size, leaving, packed);
    const StepIndex arrived = schedule.receive((rank + size - distance) % size, coming);
    for (const Rank j : moving) slots[j].arrived = arrived;
  }
  for (Rank j = 0; j < size; ++j) {
    const Rank origin = (rank + size - j) % size;
    const Slot& replaced = slots[(origin + size - rank) % size];
    schedule.copy(slots[j].at, {Space::output, origin, 0, count}, {slots[j].arrived, replaced.packed});
  }
  return schedule;
}

}  // namespace regroup::algorithms
