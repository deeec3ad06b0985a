// SPDX-License-Identifier: Apache-2.0
// The first part of the proof: what can be checked step by step, and which steps belong together.
#include <algorithm>

#include "verify/subject.h"

namespace regroup::verify {

using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

class StructureCheck {
 public:
  StructureCheck(const Subject& subject, Rank rank, Findings& findings)
      : subject_(subject), schedule_(subject.schedules[rank]), rank_(rank), findings_(findings) {}

  void run() {
    if (schedule_.rank() != rank_ || schedule_.size() != subject_.size()) {
      return findings_.add(Fault::structure, rank_, plan::kNoStep, "the schedule is for another rank or size");
    }
    bool one_sided = false;
    for (index_ = 0; index_ < schedule_.steps().size() && !findings_.full(); ++index_) {
      const Step& step = schedule_.steps()[index_];
      if (step.kind > StepKind::await) {
        fail("the step has no kind");
        continue;
      }
      one_sided = one_sided || gets(step.kind) || step.kind == StepKind::notify || step.kind == StepKind::await;
      check_ranges(step);
    }
    if (one_sided && !schedule_.one_sided()) {
      findings_.add(Fault::structure, rank_, plan::kNoStep, "has one-sided steps and does not say so");
    }
  }

 private:
  void fail(std::string text) { findings_.add(Fault::structure, rank_, index_, std::move(text)); }

  void check_ranges(const Step& step) {
    if (!schedule_.owns_ranges(step)) return fail("its sources or dependencies lie outside the schedule's lists");
    for (const StepIndex earlier : schedule_.after(step)) {
      if (earlier >= index_)
        return fail("depends on step " + std::to_string(earlier) + ", which is not an earlier one");
    }
    if (step.member >= subject_.members.size()) return fail("belongs to no operation of the batch");
    check_peer(step);
    check_sources(step);
    if (writes(step.kind)) check_slice(rank_, step.member, step.to);
    if (step.finish && !folds(step.kind)) fail("finishes although it folds nothing");
    if (step.finish || folds(step.kind)) {
      const Collective collective = subject_.members[step.member].problems[rank_].collective;
      if (!reduces(collective)) fail("folds although the collective reduces nothing");
    }
  }

  void check_peer(const Step& step) {
    const bool has_peer = step.kind == StepKind::send || receives(step.kind) || step.kind == StepKind::await;
    if (has_peer && (step.peer >= subject_.size() || step.peer == rank_)) {
      return fail("its peer, " + std::to_string(step.peer) + ", is not another rank of the group");
    }
    if (step.kind == StepKind::await) check_visible(step.peer);
    if (step.kind == StepKind::notify && subject_.options.reads == Reads::none)
      fail("is one-sided, which is not allowed");
    const bool has_mark = step.kind == StepKind::await || step.kind == StepKind::notify;
    if (has_mark && (step.mark == 0 || step.mark > plan::kDone)) fail("its mark is out of range");
  }

  // One-sided steps reach so far.
  void check_visible(Rank peer) {
    const Reads reads = subject_.options.reads;
    const auto& topology = subject_.members[0].problems[rank_].topology;
    if (reads == Reads::none) return fail("is one-sided, which is not allowed");
    if (reads == Reads::inside_hosts &&
        (topology.size() <= std::max(rank_, peer) || !topology.same_host(rank_, peer))) {
      fail("is one-sided towards rank " + std::to_string(peer) + " on another host");
    }
  }

  void check_sources(const Step& step) {
    const bool none = receives(step.kind) || step.kind == StepKind::notify || step.kind == StepKind::await;
    const bool many = step.kind == StepKind::reduce || step.kind == StepKind::get_reduce;
    const size_t count = step.sources.count;
    if (none ? count != 0 : many ? count == 0 : count != 1) return fail("has the wrong number of sources");
    for (const Source& source : schedule_.sources(step)) {
      if (source.rank >= subject_.size())
        return fail("reads from rank " + std::to_string(source.rank) + ", which is none");
      if (source.rank != rank_ && !gets(step.kind)) return fail("reads a peer's memory although it is no get");
      if (source.rank == rank_ && step.kind == StepKind::get) return fail("gets from its own rank");
      if (source.rank != rank_) check_visible(source.rank);
      if (writes(step.kind) && source.slice.count != step.to.count) {
        return fail("its source has " + std::to_string(source.slice.count) + " elements, its destination " +
                    std::to_string(step.to.count));
      }
      if (!check_slice(source.rank, step.member, source.slice)) return;
      if (source.rank == rank_ && writes(step.kind)) check_overlap(step, source.slice);
    }
  }

  bool check_slice(Rank owner, uint16_t member, const Slice& slice) {
    if (slice.space <= Space::scratch && subject_.layouts[owner][member][slice.space].contains(slice)) return true;
    fail(to_string(slice) + " lies outside rank " + std::to_string(owner) + "'s memory");
    return false;
  }

  // A step may work in place, element on element; shifted, it would destroy what it still has to read.
  void check_overlap(const Step& step, const Slice& from) {
    const MemberLayout& layout = subject_.layouts[rank_][step.member];
    if (step.to.space > Space::scratch || !layout[step.to.space].contains(step.to)) return;
    from_.clear();
    to_.clear();
    layout[from.space].resolve(from, from_);
    layout[step.to.space].resolve(step.to, to_);
    if (from_ == to_) return;
    uint64_t from_at = 0;
    for (const Piece& a : from_) {
      uint64_t to_at = 0;
      for (const Piece& b : to_) {
        const bool disjoint = a.begin + a.count <= b.begin || b.begin + b.count <= a.begin;
        if (!disjoint && a.begin - from_at != b.begin - to_at) {
          return fail("its destination " + to_string(step.to) + " overlaps its source " + to_string(from) + " shifted");
        }
        to_at += b.count;
      }
      from_at += a.count;
    }
  }

  const Subject& subject_;
  const Schedule& schedule_;
  const Rank rank_;
  Findings& findings_;
  StepIndex index_ = 0;
  std::vector<Piece> from_, to_;
};

// Pairs the k-th send from one rank to another with the k-th receive.
class Matching {
 public:
  Matching(Subject& subject, Findings& findings) : subject_(subject), findings_(findings) {}

  void run() {
    const Rank size = subject_.size();
    const size_t pairs = static_cast<size_t>(size) * size;
    std::vector<std::vector<StepId>> sent(pairs), received(pairs), published(size);
    for (StepId id = 0; id < subject_.step_count(); ++id) {
      const Step& step = subject_.step(id);
      const size_t rank = subject_.ranks[id];
      if (step.kind == StepKind::send) number(id, sent[rank * size + step.peer]);
      if (receives(step.kind)) number(id, received[step.peer * size_t{size} + rank]);
      if (step.kind == StepKind::notify) publish(id, published[rank]);
    }
    for (size_t pair = 0; pair < pairs; ++pair) match(sent[pair], received[pair]);
    for (StepId id = 0; id < subject_.step_count(); ++id) {
      if (subject_.step(id).kind == StepKind::await) match_await(id, published[subject_.step(id).peer]);
    }
  }

 private:
  void number(StepId id, std::vector<StepId>& messages) {
    if (subject_.step(id).message != messages.size()) {
      findings_.add(subject_, Fault::matching, id,
                    "is message " + std::to_string(messages.size()) + " between the two and is numbered " +
                        std::to_string(subject_.step(id).message));
    }
    messages.push_back(id);
  }

  void publish(StepId id, std::vector<StepId>& marks) {
    if (!marks.empty() && subject_.step(marks.back()).mark >= subject_.step(id).mark) {
      findings_.add(subject_, Fault::structure, id, "publishes a mark that does not exceed the one before");
    }
    marks.push_back(id);
  }

  void match(const std::vector<StepId>& sends, const std::vector<StepId>& receives) {
    const size_t both = std::min(sends.size(), receives.size());
    for (size_t k = 0; k < both; ++k) {
      const Step& send = subject_.step(sends[k]);
      const Step& receive = subject_.step(receives[k]);
      const uint64_t count = subject_.sources(sends[k])[0].slice.count;
      if (count != receive.to.count || send.member != receive.member) {
        findings_.add(subject_, Fault::matching, sends[k],
                      "sends " + std::to_string(count) + " elements of operation " + std::to_string(send.member) +
                          ", but " + subject_.describe(receives[k]) + " takes " + std::to_string(receive.to.count) +
                          " of operation " + std::to_string(receive.member));
      }
      subject_.partners[sends[k]] = receives[k];
      subject_.partners[receives[k]] = sends[k];
    }
    for (size_t k = both; k < sends.size(); ++k) {
      findings_.add(
          subject_, Fault::matching, sends[k],
          "sends to rank " + std::to_string(subject_.step(sends[k]).peer) + ", which receives no such message");
    }
    for (size_t k = both; k < receives.size(); ++k) {
      findings_.add(
          subject_, Fault::matching, receives[k],
          "receives from rank " + std::to_string(subject_.step(receives[k]).peer) + ", which sends no such message");
    }
  }

  void match_await(StepId id, const std::vector<StepId>& marks) {
    const auto found =
        std::lower_bound(marks.begin(), marks.end(), subject_.step(id).mark,
                         [this](StepId notify, plan::Mark mark) { return subject_.step(notify).mark < mark; });
    if (found == marks.end()) {
      return findings_.add(subject_, Fault::matching, id,
                           "awaits mark " + std::to_string(subject_.step(id).mark) + " of rank " +
                               std::to_string(subject_.step(id).peer) + ", which never publishes it");
    }
    subject_.partners[id] = *found;
  }

  Subject& subject_;
  Findings& findings_;
};

}  // namespace

std::string to_string(const Slice& slice) {
  return std::string(name(slice.space)) + "[" + std::to_string(slice.part) + "]+" + std::to_string(slice.offset) + "#" +
         std::to_string(slice.count);
}

std::string Subject::describe(StepId id) const {
  return "step " + std::to_string(id - bases[ranks[id]]) + " of rank " + std::to_string(ranks[id]) + " (" +
         std::string(name(step(id).kind)) + ")";
}

void check_structure(Subject& subject, Findings& findings) {
  subject.bases.assign(1, 0);
  for (Rank rank = 0; rank < subject.size(); ++rank) {
    const auto steps = static_cast<StepId>(subject.schedules[rank].steps().size());
    subject.bases.push_back(subject.bases.back() + steps);
    subject.ranks.insert(subject.ranks.end(), steps, rank);
  }
  subject.partners.assign(subject.step_count(), kNoStepId);
  for (Rank rank = 0; rank < subject.size(); ++rank) StructureCheck(subject, rank, findings).run();
  if (findings.empty()) Matching(subject, findings).run();
}

}  // namespace regroup::verify
