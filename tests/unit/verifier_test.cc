// SPDX-License-Identifier: Apache-2.0
// The verifier on schedules written by hand: right ones are proved, and each kind of fault is named.
#include "verify/verifier.h"

#include <gtest/gtest.h>

namespace regroup::verify {
namespace {

using plan::kDone;
using plan::kNoStep;
using plan::Problem;
using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::StepIndex;

std::vector<Problem> problems(Collective collective, Rank size, uint64_t count) {
  std::vector<Problem> all(size);
  for (Rank rank = 0; rank < size; ++rank) {
    Problem& problem = all[rank];
    problem.collective = collective;
    problem.rank = rank;
    problem.size = size;
    problem.count = count;
    problem.counts.assign(size, count);
    problem.receive_counts.assign(size, count);
    problem.counts_known = true;
    problem.topology = plan::Topology::one_host(size);
  }
  return all;
}

std::vector<Schedule> empty_schedules(Rank size) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < size; ++rank) schedules.emplace_back(rank, size);
  return schedules;
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += to_string(finding) + '\n';
  return text;
}

void expect_proved(const Member& member, const std::vector<Schedule>& schedules) {
  const auto findings = verify(member, schedules);
  EXPECT_TRUE(findings.empty()) << text_of(findings);
}

void expect_fault(Fault fault, const Member& member, const std::vector<Schedule>& schedules,
                  const Options& options = {}) {
  const auto findings = verify(member, schedules, options);
  ASSERT_FALSE(findings.empty()) << "expected " << name(fault);
  EXPECT_EQ(findings[0].fault, fault) << text_of(findings);
}

Slice input(uint64_t count, uint64_t offset = 0) { return {Space::input, 0, offset, count}; }
Slice output(uint64_t count, uint64_t offset = 0) { return {Space::output, 0, offset, count}; }
Slice scratch(uint64_t count, uint64_t offset = 0) { return {Space::scratch, 0, offset, count}; }

// Two ranks swap their inputs; each folds rank 0's before rank 1's.
std::vector<Schedule> exchange(uint64_t count) {
  auto schedules = empty_schedules(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    Schedule& schedule = schedules[rank];
    schedule.add_scratch(count);
    schedule.send(1 - rank, input(count));
    const StepIndex received = schedule.receive(1 - rank, scratch(count));
    const Source own{rank, input(count)}, other{rank, scratch(count)};
    const Source sources[] = {rank == 0 ? own : other, rank == 0 ? other : own};
    schedule.reduce(sources, output(count), true, {received});
  }
  return schedules;
}

// Rank 1 reads rank 0's input; rank 0 stays until it has.
std::vector<Schedule> broadcast_by_get(uint64_t count) {
  auto schedules = empty_schedules(2);
  schedules[0].copy(input(count), output(count));
  schedules[0].await(1, kDone);
  const StepIndex got = schedules[1].get(0, input(count), output(count));
  schedules[1].notify(kDone, {got});
  return schedules;
}

// A ring of `size` ranks hands every input around, in as many messages.
std::vector<Schedule> all_gather_ring(Rank size, uint64_t count) {
  auto schedules = empty_schedules(size);
  for (Rank rank = 0; rank < size; ++rank) {
    Schedule& schedule = schedules[rank];
    StepIndex last = schedule.copy(input(count), {Space::output, rank, 0, count});
    for (Rank step = 0; step + 1 < size; ++step) {
      const Rank sent = (rank + size - step) % size, received = (rank + size - step - 1) % size;
      schedule.send((rank + 1) % size, {Space::output, sent, 0, count}, {last});
      last = schedule.receive((rank + size - 1) % size, {Space::output, received, 0, count});
    }
  }
  return schedules;
}

TEST(Verifier, ProvesAnExchange) {
  const auto all = problems(Collective::all_reduce, 2, uint64_t{1} << 40);
  expect_proved({.problems = all, .single_fold = true, .rank_order = true}, exchange(uint64_t{1} << 40));
}

TEST(Verifier, ProvesOneSidedReads) {
  const auto all = problems(Collective::broadcast, 2, 5);
  expect_proved({.problems = all}, broadcast_by_get(5));
  expect_proved({.problems = all, .in_place = true}, broadcast_by_get(5));
}

TEST(Verifier, ProvesARingInAndOutOfPlace) {
  for (const Rank size : {1u, 2u, 5u, 64u}) {
    const auto all = problems(Collective::all_gather, size, 3);
    expect_proved({.problems = all}, all_gather_ring(size, 3));
    expect_proved({.problems = all, .in_place = true}, all_gather_ring(size, 3));
  }
}

TEST(Verifier, SlicesRunOnAcrossParts) {
  const auto all = problems(Collective::scatter, 2, 4);
  auto schedules = empty_schedules(2);
  schedules[0].send(1, input(4, 4));
  schedules[0].copy(input(4), output(4));
  schedules[1].receive(0, output(4));
  expect_proved({.problems = all}, schedules);
  auto wrong = empty_schedules(2);
  wrong[0].send(1, input(4, 3));
  wrong[0].copy(input(4), output(4));
  wrong[1].receive(0, output(4));
  expect_fault(Fault::result, {.problems = all}, wrong);
  auto outside = empty_schedules(2);
  outside[0].send(1, input(4, 5));
  outside[1].receive(0, output(4));
  expect_fault(Fault::structure, {.problems = all}, outside);
}

TEST(Verifier, FindsBadStructure) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto late = exchange(4);
  late[0].parts().after[0] = 7;
  expect_fault(Fault::structure, {.problems = all}, late);
  auto self = exchange(4);
  self[1].parts().steps[0].peer = 1;
  expect_fault(Fault::structure, {.problems = all}, self);
  auto other_member = exchange(4);
  other_member[1].parts().steps[2].member = 1;
  expect_fault(Fault::structure, {.problems = all}, other_member);
  auto huge = exchange(4);
  huge[1].parts().sources[0].slice.offset = UINT64_MAX - 1;
  expect_fault(Fault::structure, {.problems = all}, huge);
  auto shifted = exchange(4);
  shifted[0].add_scratch(4);
  shifted[0].copy(scratch(4), scratch(4, 2), {2});
  expect_fault(Fault::structure, {.problems = all}, shifted);
}

TEST(Verifier, KeepsOneSidedStepsWhereTheyAreAllowed) {
  auto all = problems(Collective::broadcast, 2, 5);
  expect_fault(Fault::structure, {.problems = all}, broadcast_by_get(5), {.reads = Reads::none});
  EXPECT_TRUE(verify({.problems = all}, broadcast_by_get(5), {.reads = Reads::inside_hosts}).empty());
  for (Problem& problem : all) problem.topology = plan::Topology::uniform(2, 1);
  expect_fault(Fault::structure, {.problems = all}, broadcast_by_get(5), {.reads = Reads::inside_hosts});
}

TEST(Verifier, FindsMessagesThatDoNotMatch) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto shorter = exchange(4);
  shorter[0].parts().sources[0].slice.count = 3;
  expect_fault(Fault::matching, {.problems = all}, shorter);
  auto lonely = exchange(4);
  lonely[0].send_signal(1);
  expect_fault(Fault::matching, {.problems = all}, lonely);
  auto misnumbered = exchange(4);
  misnumbered[0].parts().steps[1].message = 1;
  expect_fault(Fault::matching, {.problems = all}, misnumbered);
  const auto broadcast = problems(Collective::broadcast, 2, 4);
  auto unpublished = broadcast_by_get(4);
  unpublished[1].parts().steps[1].mark = 3;
  expect_fault(Fault::matching, {.problems = broadcast}, unpublished);
}

TEST(Verifier, FindsDeadlocks) {
  const auto all = problems(Collective::barrier, 2, 0);
  auto both_wait = empty_schedules(2);
  auto both_send = empty_schedules(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    both_wait[rank].send_signal(1 - rank, {both_wait[rank].receive_signal(1 - rank)});
    both_send[rank].receive_signal(1 - rank, {both_send[rank].send_signal(1 - rank)});
  }
  expect_fault(Fault::deadlock, {.problems = all}, both_wait);
  // Would pass where sends are buffered; nobody promises that.
  expect_fault(Fault::deadlock, {.problems = all}, both_send);
  auto marks = empty_schedules(2);
  for (Rank rank = 0; rank < 2; ++rank) marks[rank].notify(1, {marks[rank].await(1 - rank, 1)});
  expect_fault(Fault::deadlock, {.problems = all}, marks);
}

TEST(Verifier, FindsRaces) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto unordered = exchange(4);
  unordered[0].parts().steps[2].after.count = 0;  // reduces without waiting for the message
  EXPECT_FALSE(verify({.problems = all}, unordered).empty());
  // The output is in flight while it is written again: in place only.
  const auto broadcast = problems(Collective::broadcast, 2, 4);
  auto reused = empty_schedules(2);
  for (Rank rank = 0; rank < 2; ++rank) reused[rank].add_scratch(4);
  const StepIndex filled = reused[0].copy(input(4), scratch(4));
  const StepIndex sent = reused[0].send(1, scratch(4), {filled});
  reused[0].copy(input(4), scratch(4), {filled});
  reused[0].copy(input(4), output(4));
  reused[1].receive(0, output(4));
  expect_fault(Fault::race, {.problems = broadcast}, reused);
  reused[0].parts().after.back() = sent;
  expect_proved({.problems = broadcast}, reused);
}

TEST(Verifier, ASendThatCompletedSaysNothingOfItsReceive) {
  // Rank 1 may receive into its scratch long after rank 0's send is over, and after rank 0's mark.
  const auto all = problems(Collective::broadcast, 2, 4);
  auto schedules = empty_schedules(2);
  schedules[1].add_scratch(4);
  const StepIndex sent = schedules[0].send(1, input(4));
  schedules[0].copy(input(4), output(4));
  schedules[0].notify(1, {sent});
  schedules[1].receive(0, scratch(4));
  const StepIndex awaited = schedules[1].await(0, 1);
  schedules[1].copy(scratch(4), output(4), {awaited});
  EXPECT_FALSE(verify({.problems = all}, schedules).empty());
}

TEST(Verifier, FindsReadsOfMemoryWhoseOwnerReturned) {
  const auto all = problems(Collective::broadcast, 2, 4);
  auto early = empty_schedules(2);
  early[0].copy(input(4), output(4));
  early[1].get(0, input(4), output(4));
  expect_fault(Fault::lifetime, {.problems = all}, early);
  auto untrue = broadcast_by_get(4);
  untrue[1].parts().steps[1].after.count = 0;  // says that it is done before it is
  expect_fault(Fault::lifetime, {.problems = all}, untrue);
}

TEST(Verifier, FindsReadsOfWhatAPeerHasNotWritten) {
  const auto all = problems(Collective::broadcast, 2, 4);
  auto schedules = empty_schedules(2);
  const StepIndex copied = schedules[0].copy(input(4), output(4));
  schedules[0].notify(1, {copied});
  schedules[0].await(1, kDone);
  schedules[1].notify(kDone, {schedules[1].get(0, output(4), output(4), {schedules[1].await(0, 1)})});
  expect_proved({.problems = all}, schedules);
  schedules[1].parts().steps[1].after.count = 0;
  EXPECT_FALSE(verify({.problems = all}, schedules).empty());
  auto blank = empty_schedules(2);
  blank[0].send(1, output(4));
  blank[1].receive(0, output(4));
  expect_fault(Fault::uninitialised, {.problems = all}, blank);
}

TEST(Verifier, ProtectsTheInput) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto schedules = empty_schedules(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    const Source own{rank, input(4)};
    schedules[rank].reduce({&own, 1}, input(4), false);
  }
  expect_fault(Fault::input_written, {.problems = all}, schedules);
}

TEST(Verifier, FindsWrongFolds) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto twice = exchange(4);
  twice[0].parts().sources[2] = twice[0].parts().sources[1];
  expect_fault(Fault::fold, {.problems = all}, twice);
  auto misaligned = empty_schedules(1);
  const auto one = problems(Collective::all_reduce, 1, 4);
  const Source crossed[] = {{0, input(2)}, {0, input(2, 2)}};
  misaligned[0].reduce(crossed, output(2), true);
  expect_fault(Fault::fold, {.problems = one}, misaligned);
  auto early = exchange(4);
  early[0].parts().steps[2].sources.count = 1;
  expect_fault(Fault::fold, {.problems = all}, early);
  auto again = exchange(4);
  const Source result{1, output(4)};
  again[1].reduce({&result, 1}, output(4), true, {2});
  expect_fault(Fault::fold, {.problems = all}, again);
}

TEST(Verifier, FindsWrongResults) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto unfinished = exchange(4);
  unfinished[1].parts().steps[2].finish = false;
  expect_fault(Fault::result, {.problems = all}, unfinished);
  expect_fault(Fault::result, {.problems = all}, empty_schedules(2));
  const auto barrier = problems(Collective::barrier, 3, 0);
  auto chain = empty_schedules(3);
  chain[0].send_signal(1);
  chain[1].send_signal(2, {chain[1].receive_signal(0)});
  chain[2].receive_signal(1);
  expect_fault(Fault::result, {.problems = barrier}, chain);
}

TEST(Verifier, FindsResultsThatDifferInTheirBits) {
  const auto all = problems(Collective::all_reduce, 2, 4);
  auto swapped = exchange(4);
  std::swap(swapped[1].parts().sources[1], swapped[1].parts().sources[2]);
  expect_fault(Fault::order, {.problems = all}, swapped);
  std::swap(swapped[0].parts().sources[1], swapped[0].parts().sources[2]);
  expect_proved({.problems = all}, swapped);
  expect_fault(Fault::order, {.problems = all, .rank_order = true}, swapped);
  expect_fault(Fault::order, {.problems = all, .single_fold = true}, swapped);
}

TEST(Verifier, TellsOneFoldFromSeveral) {
  const auto all = problems(Collective::reduce, 3, 4);
  auto chain = empty_schedules(3);
  chain[0].send(1, input(4));
  const StepIndex first = chain[1].copy(input(4), scratch(4));
  chain[1].add_scratch(4);
  chain[1].send(2, scratch(4), {chain[1].receive_reduce(0, scratch(4), true, false, {first})});
  auto& last = chain[2];
  last.add_scratch(4);
  const StepIndex own = last.copy(input(4), scratch(4));
  const StepIndex folded = last.receive_reduce(1, scratch(4), true, true, {own});
  last.send(0, scratch(4), {folded});
  chain[0].receive(2, output(4));
  expect_proved({.problems = all, .rank_order = true}, chain);
  expect_fault(Fault::order, {.problems = all, .single_fold = true}, chain);
}

TEST(Verifier, ProvesABatch) {
  const auto reduced = problems(Collective::all_reduce, 2, 4);
  const auto spread = problems(Collective::broadcast, 2, 3);
  auto schedules = exchange(4);
  for (Rank rank = 0; rank < 2; ++rank) schedules[rank].begin_member(1);
  schedules[0].send(1, input(3));
  schedules[0].copy(input(3), output(3));
  schedules[1].receive(0, output(3));
  const Member members[] = {{.problems = reduced}, {.problems = spread, .in_place = true}};
  const auto findings = verify(members, schedules);
  EXPECT_TRUE(findings.empty()) << text_of(findings);
  schedules[1].parts().steps.back().member = 0;
  EXPECT_EQ(verify(members, schedules).at(0).fault, Fault::matching);
}

}  // namespace
}  // namespace regroup::verify
