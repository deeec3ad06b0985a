// SPDX-License-Identifier: Apache-2.0
// A Schedule: one rank's part in a collective, as data. Steps, what each reads and writes, and what must precede it.
// It counts in elements and knows neither their type, nor addresses, nor a transport, nor time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "regroup/types.h"

namespace regroup::plan {

using StepIndex = uint32_t;
inline constexpr StepIndex kNoStep = std::numeric_limits<StepIndex>::max();
inline constexpr Rank kNoRank = std::numeric_limits<Rank>::max();

// What a rank publishes by `notify` and others `await`: rises from 1. kDone, the greatest, says "I read no peer's
// memory any more in this operation".
using Mark = uint32_t;
inline constexpr Mark kDone = (1u << 24) - 1;

enum class StepKind : uint8_t {
  copy,            // to ← source 0, all on this rank
  reduce,          // to ← fold of all sources in their order, all on this rank; `to` may be one of them
  send,            // source 0 → peer; done when the source may be overwritten
  receive,         // to ← peer's matching send
  receive_reduce,  // to ← fold of `to` and what arrives (`received_first`: of what arrives and `to`)
  get,             // to ← source 0, in a peer's memory
  get_reduce,      // to ← fold of all sources in their order, some of them in peers' memory
  notify,          // publish `mark` to every rank: all that precedes this step is done
  await,           // wait until `peer` has published `mark` or a greater one
};

// Where elements live. A rank's input and output consist of parts (a list of buffers, or one buffer cut by counts):
//   barrier                  no input, no output
//   broadcast                input 1 part at the root, none elsewhere · output 1 part everywhere
//   reduce                   input 1 part · output 1 part at the root, none elsewhere
//   all_reduce               input 1 part · output 1 part
//   gather                   input 1 part · output `size` parts at the root, none elsewhere
//   all_gather               input 1 part · output `size` parts
//   scatter                  input `size` parts at the root, none elsewhere · output 1 part
//   reduce_scatter           input `size` parts · output 1 part
//   all_to_all               input `size` parts · output `size` parts
// Scratch is one part of `scratch_count` elements, private to the operation, and readable by peers like the others.
// In place means that memory is shared: input = output (all_reduce, reduce, broadcast), input = output part `rank`
// (gather, all_gather), output = input part `rank` (scatter, reduce_scatter), input part r = output part r
// (all_to_all).
enum class Space : uint8_t { input, output, scratch };

// `count` elements from element `offset` of part `part`, running on into the following parts where the part ends. So
// {output, 0, 0, total} is the whole output, and {output, 2, 0, …} starts where part 2 does.
struct Slice {
  Space space = Space::input;
  uint32_t part = 0;
  uint64_t offset = 0;
  uint64_t count = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// A slice of some rank's memory: this rank's own, or a peer's that is read one-sidedly.
struct Source {
  Rank rank = 0;
  Slice slice;

  friend bool operator==(const Source&, const Source&) = default;
};

// A range of indices into a vector of the schedule.
struct Range {
  uint32_t begin = 0;
  uint32_t count = 0;
};

struct Step {
  StepKind kind = StepKind::copy;
  bool finish = false;  // reductions: every contribution is in; apply what the operator does last (average: divide)
  bool received_first = false;  // receive_reduce: the order of the operands
  uint16_t member = 0;          // of a batch: which operation's spaces, type and operator; 0 otherwise
  Rank peer = kNoRank;          // send, receive, receive_reduce, await
  Mark mark = 0;                // notify, await
  uint32_t message = 0;         // send, receive, receive_reduce: the k-th message between the two, counted by `add`
  Range sources;                // into Schedule::sources: 1 for copy, send and get; any number from 1 for reductions
  Slice to;                     // all but send, notify, await
  Range after;                  // into Schedule::dependencies: steps that must be done before this one starts
};

// Steps to wait for; kNoStep entries are left out, so that `{last}` works also where there is no last step yet.
using After = std::initializer_list<StepIndex>;

// Steps may run in any order and at the same time as far as `after` allows; every step's dependencies have lower
// indices. A `get` may start when the peer has entered the operation (its input is there); what the peer itself writes
// must be awaited. The k-th send from A to B matches the k-th receive at B from A, in the order in which they were
// added. A rank may return when its steps are done: a schedule in which peers read this rank's memory therefore ends
// with `await(reader, kDone)` for each of them.
class Schedule {
 public:
  explicit Schedule(Rank rank = 0, Rank size = 1) : rank_(rank), size_(size) {}

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  const std::vector<Step>& steps() const { return steps_; }
  std::span<const Source> sources(const Step& step) const {
    return {sources_.data() + step.sources.begin, step.sources.count};
  }
  std::span<const StepIndex> after(const Step& step) const {
    return {after_.data() + step.after.begin, step.after.count};
  }
  // Elements of scratch that member `member` needs.
  uint64_t scratch_count(uint16_t member = 0) const { return member < scratch_.size() ? scratch_[member] : 0; }
  uint16_t members() const { return static_cast<uint16_t>(scratch_.size()); }
  // Whether it needs a transport that reads peers' memory.
  bool one_sided() const { return one_sided_; }

  // --- for planners only. Each returns the new step's index; copies, gets, sends and receives of nothing return
  // kNoStep and add nothing (both sides know the count, so both leave it out), except where said.
  StepIndex copy(Slice from, Slice to, After after = {});
  StepIndex reduce(std::span<const Source> sources, Slice to, bool finish, After after = {});
  StepIndex send(Rank to, Slice from, After after = {});
  StepIndex receive(Rank from, Slice to, After after = {});
  StepIndex receive_reduce(Rank from, Slice to, bool received_first, bool finish, After after = {});
  // A message without data, for synchronisation: kept although it is empty.
  StepIndex send_signal(Rank to, After after = {});
  StepIndex receive_signal(Rank from, After after = {});
  StepIndex get(Rank from, Slice at_peer, Slice to, After after = {});
  // Sources may lie on this rank and on peers; a plain `reduce` where none lies on a peer.
  StepIndex get_reduce(std::span<const Source> sources, Slice to, bool finish, After after = {});
  // Marks must rise; each notify also follows the one before it.
  StepIndex notify(Mark mark, After after = {});
  StepIndex await(Rank peer, Mark mark, After after = {});
  // The same with any number of dependencies.
  StepIndex notify(Mark mark, std::span<const StepIndex> after);

  // Adds further dependencies to a step that was just added (the last one).
  void also_after(StepIndex step, std::span<const StepIndex> more);
  // Reserves scratch; returns its first element.
  uint64_t add_scratch(uint64_t count, uint16_t member = 0);
  // The steps added from now on belong to this member of a batch.
  void begin_member(uint16_t member);

  // For tests that damage schedules on purpose, and for composition: the raw parts.
  struct Parts {
    std::vector<Step>& steps;
    std::vector<Source>& sources;
    std::vector<StepIndex>& after;
    std::vector<uint64_t>& scratch;
  };
  Parts parts() { return {steps_, sources_, after_, scratch_}; }
  // Whether the step's ranges lie inside the schedule's lists; always so unless it was damaged.
  bool owns_ranges(const Step& step) const {
    return step.sources.begin <= sources_.size() && step.sources.count <= sources_.size() - step.sources.begin &&
           step.after.begin <= after_.size() && step.after.count <= after_.size() - step.after.begin;
  }

 private:
  StepIndex add(Step step, std::span<const Source> sources, std::span<const StepIndex> after);
  uint32_t next_message(std::vector<uint32_t>& counters, Rank peer);

  Rank rank_;
  Rank size_;
  bool one_sided_ = false;
  uint16_t member_ = 0;
  StepIndex last_notify_ = kNoStep;
  std::vector<Step> steps_;
  std::vector<Source> sources_;
  std::vector<StepIndex> after_;
  std::vector<uint64_t> scratch_ = {0};
  std::vector<uint32_t> sent_;      // messages so far, by peer
  std::vector<uint32_t> received_;  // messages so far, by peer
};

std::string_view name(StepKind kind);
std::string_view name(Space space);
// One step a line, for people.
std::string to_string(const Schedule& schedule);

}  // namespace regroup::plan
