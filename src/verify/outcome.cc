// SPDX-License-Identifier: Apache-2.0
#include "verify/outcome.h"

namespace regroup::verify {

using plan::Problem;
using plan::Slice;
using plan::Space;

std::string describe(const Expressions& expressions, const Value& value) {
  if (value.expression == kUndefined) return "nothing";
  const Expression& expression = expressions[value.expression];
  const std::string element = "element " + std::to_string(value.index);
  if (!expression.folded) return element + " of rank " + std::to_string(expression.first) + "'s input";
  return element + (expression.finished ? ", finished," : ", unfinished,") + " folded over " +
         std::to_string(expression.contributions) + " ranks from rank " + std::to_string(expression.first) +
         " to rank " + std::to_string(expression.last);
}

namespace {

class OutcomeCheck {
 public:
  OutcomeCheck(const Subject& subject, Outcome& outcome, size_t member, Findings& findings)
      : subject_(subject), outcome_(outcome), member_(member), findings_(findings) {}

  void run() {
    const Collective collective = problem(0).collective;
    for (Rank rank = 0; rank < subject_.size() && !findings_.full(); ++rank) {
      if (reduces(collective)) {
        expect_fold(rank);
      } else {
        expect_origins(rank);
      }
    }
    if (collective == Collective::all_reduce) expect_same();
  }

 private:
  const Problem& problem(Rank rank) const { return subject_.members[member_].problems[rank]; }
  const SpaceLayout& layout(Rank rank, Space space) const { return subject_.layouts[rank][member_][space]; }
  const Expressions& expressions() const { return outcome_.expressions[member_]; }

  // What a slice of a rank's output holds.
  const std::vector<Run>& runs(Rank rank, const Slice& slice) {
    pieces_.clear();
    runs_.clear();
    if (slice.count > 0) layout(rank, slice.space).resolve(slice, pieces_);
    for (const Piece& piece : pieces_) {
      Memory& memory = outcome_.memories[rank];
      for (const Cell& cell : memory.cells(piece)) append(runs_, {memory.count(cell), cell.value});
    }
    return runs_;
  }

  std::string output_element(uint32_t part, uint64_t element) const {
    return "element " + std::to_string(element) + " of output part " + std::to_string(part);
  }

  void wrong(Rank rank, uint32_t part, uint64_t element, const Value& value, const std::string& expected) {
    findings_.add(
        Fault::result, rank, plan::kNoStep,
        output_element(part, element) + " holds " + describe(expressions(), value) + " instead of " + expected);
  }

  // Part `part` of the output is rank `origin`'s input from element `index` on.
  void expect_origin(Rank rank, uint32_t part, Rank origin, uint64_t index) {
    uint64_t at = 0;
    for (const Run& run : runs(rank, {Space::output, part, 0, layout(rank, Space::output).count(part)})) {
      const Value expected{expressions().input(origin), index + at};
      if (run.value.expression != expected.expression || run.value.index != expected.index) {
        return wrong(rank, part, at, run.value, describe(expressions(), expected));
      }
      at += run.count;
    }
  }

  void expect_origins(Rank rank) {
    const Problem& mine = problem(rank);
    for (uint32_t part = 0; part < layout(rank, Space::output).parts() && !findings_.full(); ++part) {
      switch (mine.collective) {
        case Collective::broadcast:
          expect_origin(rank, part, mine.root, 0);
          break;
        case Collective::scatter:
          expect_origin(rank, part, mine.root, layout(mine.root, Space::input).start(rank));
          break;
        case Collective::gather:
        case Collective::all_gather:
          expect_origin(rank, part, part, 0);
          break;
        case Collective::all_to_all:
          expect_origin(rank, part, part, layout(part, Space::input).start(rank));
          break;
        default:
          break;
      }
    }
  }

  void expect_fold(Rank rank) {
    const SpaceLayout& output = layout(rank, Space::output);
    if (output.parts() == 0) return;
    const uint64_t start =
        problem(rank).collective == Collective::reduce_scatter ? layout(rank, Space::input).start(rank) : 0;
    uint64_t at = 0;
    for (const Run& run : runs(rank, {Space::output, 0, 0, output.total()})) {
      const ExpressionId made = run.value.expression;
      if (made == kUndefined || !expressions().complete(made) || !expressions()[made].finished ||
          run.value.index != start + at) {
        return wrong(rank, 0, at, run.value,
                     "element " + std::to_string(start + at) + ", finished, folded over all " +
                         std::to_string(subject_.size()) + " ranks");
      }
      if (!expect_order(rank, at, expressions()[made])) return;
      at += run.count;
    }
  }

  bool expect_order(Rank rank, uint64_t at, const Expression& made) {
    const Member& member = subject_.members[member_];
    const bool ordered = made.rank_order || !(member.rank_order || member.single_fold);
    if (ordered && (made.one_fold || !member.single_fold)) return true;
    findings_.add(
        Fault::order, rank, plan::kNoStep,
        output_element(0, at) + (ordered ? " is not one fold over the inputs" : " is not folded in rank order"));
    return false;
  }

  // Every rank's result is made by the same expression.
  void expect_same() {
    const Slice whole{Space::output, 0, 0, problem(0).count};
    const std::vector<Run> first = runs(0, whole);
    for (Rank rank = 1; rank < subject_.size() && !findings_.full(); ++rank) {
      const std::vector<Run>& other = runs(rank, whole);
      size_t i = 0, j = 0;
      uint64_t first_end = 0, other_end = 0, at = 0;
      while (at < whole.count) {
        if (at == first_end) first_end += first[i++].count;
        if (at == other_end) other_end += other[j++].count;
        if (expressions()[first[i - 1].value.expression].key != expressions()[other[j - 1].value.expression].key) {
          findings_.add(Fault::order, rank, plan::kNoStep,
                        output_element(0, at) + " is folded in another order than on rank 0");
          break;
        }
        at = std::min(first_end, other_end);
      }
    }
  }

  const Subject& subject_;
  Outcome& outcome_;
  const size_t member_;
  Findings& findings_;
  std::vector<Piece> pieces_;
  std::vector<Run> runs_;
};

}  // namespace

void check_outcome(const Subject& subject, Outcome& outcome, Findings& findings) {
  for (size_t member = 0; member < subject.members.size(); ++member) {
    OutcomeCheck(subject, outcome, member, findings).run();
  }
}

}  // namespace regroup::verify
