// SPDX-License-Identifier: Apache-2.0
// The third and fourth part of the proof: one symbolic run. Every access is checked against the accesses before it, so
// that a conflict without an order shows whichever of the admissible orders this run takes; and where there is none,
// all orders give what this one gives.
#include <algorithm>

#include "verify/memory.h"
#include "verify/outcome.h"
#include "verify/past.h"
#include "verify/subject.h"

namespace regroup::verify {

using plan::Slice;
using plan::Source;
using plan::Space;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

class Execution {
 public:
  Execution(const Subject& subject, const std::vector<StepId>& order, Findings& findings)
      : subject_(subject),
        order_(order),
        findings_(findings),
        places_(places(order)),
        past_(subject.size(), uses()),
        ends_(subject.size()),
        followed_(order.size()) {
    payloads_.resize(order.size());
    for (StepId id = 0; id < subject.step_count(); ++id) {
      for (const StepIndex earlier : subject.after(id)) followed_[subject.bases[subject.ranks[id]] + earlier] = true;
    }
    for (const Member& member : subject.members) barrier_ |= member.problems[0].collective == Collective::barrier;
    ends_matter_ = barrier_;
    for (const plan::Schedule& schedule : subject.schedules) ends_matter_ |= schedule.one_sided();
    for (size_t member = 0; member < subject.members.size(); ++member)
      outcome_.expressions.emplace_back(subject.size());
    for (Rank rank = 0; rank < subject.size(); ++rank) outcome_.memories.push_back(initial_memory(rank));
  }

  void run() {
    for (Place place = 0; place < order_.size() && !findings_.full(); ++place) {
      now_ = place;
      id_ = order_[place];
      const Rank rank = subject_.ranks[id_];
      past_.start(place);
      for (const StepIndex earlier : subject_.after(id_)) past_.include(places_[subject_.bases[rank] + earlier]);
      past_.learn_entered(rank);
      access(subject_.step(id_));
      learn(subject_.step(id_));
      past_.learn_over(place);
      if (ends_matter_ && !followed_[id_]) past_.add_to(ends_[rank]);
      past_.finish();
    }
    if (findings_.full()) return;
    check_ends();
    if (findings_.empty()) check_outcome(subject_, outcome_, findings_);
  }

 private:
  static std::vector<Place> places(const std::vector<StepId>& order) {
    std::vector<Place> found(order.size());
    for (Place place = 0; place < order.size(); ++place) found[order[place]] = place;
    return found;
  }

  // How many steps build on what each one knew.
  std::vector<uint32_t> uses() const {
    std::vector<uint32_t> count(order_.size());
    for (StepId id = 0; id < subject_.step_count(); ++id) {
      const StepKind kind = subject_.step(id).kind;
      for (const StepIndex earlier : subject_.after(id)) ++count[places_[subject_.bases[subject_.ranks[id]] + earlier]];
      if (receives(kind) || kind == StepKind::await) ++count[places_[subject_.partners[id]]];
    }
    return count;
  }

  Memory initial_memory(Rank rank) const {
    Memory memory(subject_.memory_ends[rank]);
    std::vector<Piece> pieces;
    for (size_t member = 0; member < subject_.members.size(); ++member) {
      const MemberLayout& layout = subject_.layouts[rank][member];
      for (const Space space : {Space::input, Space::output}) {
        pieces.clear();
        const SpaceLayout& all = layout[space];
        if (all.total() > 0) all.resolve({space, 0, 0, all.total()}, pieces);
        uint64_t index = 0;
        for (const Piece& piece : pieces) {
          const Run run{piece.count, {outcome_.expressions[member].input(rank), index}};
          if (space == Space::input) memory.write(piece, {&run, 1}, kNobody);
          for (Cell& cell : memory.cells(piece)) cell.constant = space == Space::input;
          index += piece.count;
        }
      }
    }
    return memory;
  }

  // --- one step
  void access(const Step& step) {
    switch (step.kind) {
      case StepKind::notify:
        return publish(step);
      case StepKind::await:
        return;
      case StepKind::send:
        payloads_[id_].clear();
        return read(subject_.sources(id_)[0], payloads_[id_]);
      case StepKind::receive:
        return write(step, payloads_[subject_.partners[id_]]);
      case StepKind::copy:
        if (onto_itself(step)) return;
        [[fallthrough]];
      case StepKind::get:
        result_.clear();
        read(subject_.sources(id_)[0], result_);
        return write(step, result_);
      case StepKind::receive_reduce: {
        operands_.resize(std::max<size_t>(operands_.size(), 2));
        std::vector<Run>& own = operands_[step.received_first ? 1 : 0];
        std::vector<Run>& arrived = operands_[step.received_first ? 0 : 1];
        own.clear();
        read({subject_.ranks[id_], step.to}, own);
        arrived.swap(payloads_[subject_.partners[id_]]);
        fold(step, 2);
        return write(step, result_);
      }
      case StepKind::reduce:
      case StepKind::get_reduce: {
        const auto sources = subject_.sources(id_);
        operands_.resize(std::max(operands_.size(), sources.size()));
        for (size_t i = 0; i < sources.size(); ++i) {
          operands_[i].clear();
          read(sources[i], operands_[i]);
        }
        fold(step, sources.size());
        return write(step, result_);
      }
    }
  }

  // What the step knows when it is over, besides what it knew at its start.
  void learn(const Step& step) {
    if (receives(step.kind)) {
      // That the send has started, not that it is over.
      const Place send = places_[subject_.partners[id_]];
      const bool over = past_.over(send);
      past_.include(send);
      if (!over) past_.forget_over(send);
    } else if (step.kind == StepKind::await) {
      past_.include(places_[subject_.partners[id_]]);
    } else if (gets(step.kind)) {
      for (const Source& source : subject_.sources(id_)) past_.learn_entered(source.rank);
    }
  }

  // Marks are published in their order, and the last one says the truth.
  void publish(const Step& step) {
    const StepId first = subject_.bases[subject_.ranks[id_]];
    const StepId end = subject_.bases[subject_.ranks[id_] + 1];
    StepId before = id_;
    while (before > first && subject_.step(--before).kind != StepKind::notify) {
    }
    if (before != id_ && subject_.step(before).kind == StepKind::notify && !past_.over(places_[before])) {
      findings_.add(subject_, Fault::race, id_, "may be published before " + subject_.describe(before));
    }
    for (StepId id = first; id < end && step.mark == plan::kDone; ++id) {
      if (!gets(subject_.step(id).kind) || past_.over(places_[id])) continue;
      return findings_.add(subject_, Fault::lifetime, id,
                           "may still read when its rank publishes that it reads no more");
    }
  }

  // In place, the copy from input to output finds its elements where they belong, and touches nothing.
  bool onto_itself(const Step& step) {
    resolve(subject_.ranks[id_], step.member, subject_.sources(id_)[0].slice);
    from_.swap(pieces_);
    resolve(subject_.ranks[id_], step.member, step.to);
    return from_ == pieces_;
  }

  void resolve(Rank owner, uint16_t member, const Slice& slice) {
    pieces_.clear();
    if (slice.count > 0) subject_.layouts[owner][member][slice.space].resolve(slice, pieces_);
  }

  void read(const Source& source, std::vector<Run>& runs) {
    resolve(source.rank, subject_.step(id_).member, source.slice);
    Memory& memory = outcome_.memories[source.rank];
    bool raced = false, undefined = false;
    for (const Piece& piece : pieces_) {
      for (Cell& cell : memory.cells(piece)) {
        if (cell.writer != kNobody && !past_.over(cell.writer) && !raced) {
          raced = true;
          race("reads", source.slice, cell.writer, "writes it");
        }
        undefined = undefined || cell.value.expression == kUndefined;
        cell.readers = readers_.add(cell.readers, now_);
        append(runs, {memory.count(cell), cell.value});
      }
    }
    if (undefined && !broken_) {
      broken_ = true;
      findings_.add(subject_, Fault::uninitialised, id_,
                    "reads " + to_string(source.slice) + " of rank " + std::to_string(source.rank) +
                        ", which nothing may have written yet");
    }
  }

  void write(const Step& step, const std::vector<Run>& runs) {
    resolve(subject_.ranks[id_], step.member, step.to);
    Memory& memory = outcome_.memories[subject_.ranks[id_]];
    size_t next = 0;
    uint64_t used = 0;  // of runs[next]
    bool raced = false;
    for (const Piece& piece : pieces_) {
      bool constant = false;
      for (const Cell& cell : memory.cells(piece)) {
        raced = raced || races(step, cell);
        constant = constant || cell.constant;
      }
      if (constant) {
        return findings_.add(subject_, Fault::input_written, id_,
                             "writes " + to_string(step.to) + ", the caller's input");
      }
      part_.clear();
      for (uint64_t left = piece.count; left > 0;) {
        const Run& run = runs[next];
        const uint64_t taken = std::min(left, run.count - used);
        part_.push_back({taken, {run.value.expression, run.value.index + used}});
        left -= taken;
        used += taken;
        if (used == run.count) ++next, used = 0;
      }
      memory.write(piece, part_, now_);
    }
  }

  // Whether an earlier access to the cell may still be going on when this step writes it.
  bool races(const Step& step, const Cell& cell) {
    if (cell.writer != kNobody && !past_.over(cell.writer)) {
      race("writes", step.to, cell.writer, "writes it");
      return true;
    }
    for (Readers::List at = cell.readers; at != Readers::kNone; at = readers_[at].next) {
      const Place reader = readers_[at].reader;
      if (reader == now_ || past_.over(reader)) continue;
      race("writes", step.to, reader, "may still read it");
      return true;
    }
    return false;
  }

  void race(const char* what, const Slice& slice, Place other, const char* what_other) {
    findings_.add(
        subject_, Fault::race, id_,
        std::string(what) + " " + to_string(slice) + " while " + subject_.describe(order_[other]) + " " + what_other);
  }

  // --- folds
  // result_ ← the fold of the first `count` operands.
  void fold(const Step& step, size_t count) {
    result_.clear();
    at_.assign(count, 0);
    used_.assign(count, 0);
    bool failed = false;
    for (uint64_t left = step.to.count; left > 0;) {
      uint64_t length = left;
      for (size_t i = 0; i < count; ++i) length = std::min(length, operands_[i][at_[i]].count - used_[i]);
      values_.clear();
      for (size_t i = 0; i < count; ++i) {
        const Run& run = operands_[i][at_[i]];
        values_.push_back({run.value.expression, run.value.index + used_[i]});
        used_[i] += length;
        if (used_[i] == run.count) ++at_[i], used_[i] = 0;
      }
      append(result_, {length, failed ? Value{} : fold_values(step, &failed)});
      left -= length;
    }
  }

  Value fold_values(const Step& step, bool* failed) {
    Expressions& expressions = outcome_.expressions[step.member];
    ids_.clear();
    for (const Value& value : values_) {
      if (value.expression == kUndefined) return {};
      ids_.push_back(value.expression);
      if (expressions[value.expression].finished) {
        return cannot_fold("folds a finished result: " + describe(expressions, value), failed);
      }
      if (value.index != values_[0].index) {
        return cannot_fold("folds " + describe(expressions, values_[0]) + " with " + describe(expressions, value),
                           failed);
      }
    }
    Rank twice = 0;
    ExpressionId made = expressions.fold(ids_, &twice);
    if (made == kUndefined) return cannot_fold("folds rank " + std::to_string(twice) + "'s contribution twice", failed);
    if (step.finish) {
      if (!expressions.complete(made)) {
        return cannot_fold("finishes with " + std::to_string(expressions[made].contributions) + " of " +
                               std::to_string(subject_.size()) + " contributions",
                           failed);
      }
      made = expressions.finish(made);
    }
    return {made, values_[0].index};
  }

  Value cannot_fold(std::string text, bool* failed) {
    if (!broken_) findings_.add(subject_, Fault::fold, id_, std::move(text));
    *failed = broken_ = true;
    return {};
  }

  // --- when all steps are done
  // A rank that returns takes its memory with it; and from a barrier none returns before all have entered.
  void check_ends() {
    if (!ends_matter_) return;
    for (StepId id = 0; id < subject_.step_count(); ++id) {
      if (!gets(subject_.step(id).kind)) continue;
      for (const Source& source : subject_.sources(id)) {
        if (source.rank == subject_.ranks[id] || past_.over(ends_[source.rank], places_[id])) continue;
        findings_.add(subject_, Fault::lifetime, id,
                      "may still read the memory of rank " + std::to_string(source.rank) + " when that returns");
        break;
      }
    }
    if (!barrier_) return;
    for (Rank rank = 0; rank < subject_.size(); ++rank) {
      for (Rank other = 0; other < subject_.size(); ++other) {
        if (other == rank || past_.entered(ends_[rank], other)) continue;
        findings_.add(Fault::result, rank, plan::kNoStep,
                      "may leave the barrier before rank " + std::to_string(other) + " has entered it");
      }
    }
  }

  const Subject& subject_;
  const std::vector<StepId>& order_;
  Findings& findings_;
  std::vector<Place> places_;  // of each step in order_
  Past past_;
  std::vector<std::vector<uint64_t>> ends_;  // of each rank: what is known when all its steps are over
  std::vector<bool> followed_;               // by step: others of its rank wait for it
  bool barrier_ = false;                     // there is one among the operations
  bool ends_matter_ = false;
  Outcome outcome_;
  Readers readers_;
  std::vector<std::vector<Run>> payloads_;  // of each send, until it is received
  bool broken_ = false;                     // later values follow from an earlier fault

  Place now_ = 0;  // the step that runs
  StepId id_ = 0;
  std::vector<Piece> pieces_, from_;
  std::vector<std::vector<Run>> operands_;
  std::vector<Run> result_, part_;
  std::vector<Value> values_;
  std::vector<ExpressionId> ids_;
  std::vector<size_t> at_;      // of each operand: the run
  std::vector<uint64_t> used_;  // and how much of it is folded already
};

}  // namespace

void check_execution(const Subject& subject, const std::vector<StepId>& order, Findings& findings) {
  Execution(subject, order, findings).run();
}

}  // namespace regroup::verify
