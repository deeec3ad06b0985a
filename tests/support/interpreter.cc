// SPDX-License-Identifier: Apache-2.0
#include "support/interpreter.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace regroup::testing {

using plan::Mark;
using plan::Problem;
using plan::Schedule;
using plan::Slice;
using plan::Source;
using plan::Space;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;

namespace {

uint64_t mix(uint64_t state, uint64_t next) {
  state = (state ^ next) * 0x9e3779b97f4a7c15u;
  return state ^ (state >> 29);
}

}  // namespace

Value contribution(Rank rank, uint32_t part, uint64_t index) {
  Value value;
  value.sum = static_cast<int64_t>(index * 1000003 + part * 10007 + rank * 101 + 1);
  value.trace = mix(mix(mix(1, rank), part), index);
  value.valid = true;
  return value;
}

Value fold(const std::vector<Value>& operands, bool finish) {
  Value result;
  result.valid = true;
  result.finished = finish;
  result.trace = mix(2, operands.size());
  for (const Value& operand : operands) {
    result.sum += operand.sum;
    result.trace = mix(result.trace, operand.trace);
  }
  return result;
}

std::vector<uint64_t> input_parts(const Problem& problem) {
  const bool root = problem.rank == problem.root;
  switch (problem.collective) {
    case Collective::broadcast:
      return root ? std::vector<uint64_t>{problem.count} : std::vector<uint64_t>{};
    case Collective::reduce:
    case Collective::all_reduce:
    case Collective::gather:
      return {problem.count};
    case Collective::all_gather:
      return {problem.counts[problem.rank]};
    case Collective::scatter:
      return root ? problem.counts : std::vector<uint64_t>{};
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return problem.counts;
    default:
      return {};
  }
}

std::vector<uint64_t> output_parts(const Problem& problem) {
  const bool root = problem.rank == problem.root;
  switch (problem.collective) {
    case Collective::broadcast:
    case Collective::all_reduce:
    case Collective::scatter:
      return {problem.count};
    case Collective::reduce:
      return root ? std::vector<uint64_t>{problem.count} : std::vector<uint64_t>{};
    case Collective::gather:
      return root ? problem.counts : std::vector<uint64_t>{};
    case Collective::all_gather:
      return problem.counts;
    case Collective::reduce_scatter:
      return {problem.counts[problem.rank]};
    case Collective::all_to_all:
      return problem.receive_counts;
    default:
      return {};
  }
}

Interpreter::Interpreter(const std::vector<Problem>& problems, std::vector<Schedule> schedules, RunOptions options)
    : options_(options), schedules_(std::move(schedules)), members_(problems.size()), random_(options.seed) {
  REGROUP_ASSERT(problems.size() == schedules_.size());
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    lay_out(problems[rank], &members_[rank]);
    Member& member = members_[rank];
    const std::vector<Step>& steps = schedules_[rank].steps();
    member.left = steps.size();
    member.followers.resize(steps.size());
    for (StepIndex index = 0; index < steps.size(); ++index) {
      member.waits.push_back(steps[index].after.count);
      for (const StepIndex earlier : schedules_[rank].after(steps[index])) member.followers[earlier].push_back(index);
      if (steps[index].after.count == 0) waiting_.push_back({rank, index});
    }
  }
}

void Interpreter::lay_out(const Problem& problem, Member* member) {
  std::vector<Cell>& cells = member->cells;
  const auto add = [&](std::vector<Part>& parts, uint64_t count) {
    parts.push_back({cells.size(), count});
    cells.resize(cells.size() + count);
  };
  std::vector<Part>& inputs = member->parts[static_cast<int>(Space::input)];
  std::vector<Part>& outputs = member->parts[static_cast<int>(Space::output)];
  uint32_t part = 0;
  for (const uint64_t count : input_parts(problem)) {
    add(inputs, count);
    for (uint64_t i = 0; i < count; ++i) cells[inputs.back().first + i].value = contribution(problem.rank, part, i);
    ++part;
  }
  part = 0;
  for (const uint64_t count : output_parts(problem)) {
    // The input part that lies in this output part's memory.
    size_t shared = inputs.size();
    if (options_.in_place) {
      const bool one_input = inputs.size() == 1;
      const bool gathers = problem.collective == Collective::gather || problem.collective == Collective::all_gather;
      const bool scatters =
          problem.collective == Collective::scatter || problem.collective == Collective::reduce_scatter;
      if (problem.collective == Collective::all_to_all) shared = part;
      if (scatters) shared = problem.rank;
      if (!gathers && !scatters && one_input) shared = 0;
      if (gathers && part == problem.rank) shared = 0;
    }
    if (shared < inputs.size()) {
      REGROUP_ASSERT(inputs[shared].count == count);
      outputs.push_back(inputs[shared]);
    } else {
      add(outputs, count);
    }
    ++part;
  }
  add(member->parts[static_cast<int>(Space::scratch)], schedules_[problem.rank].scratch_count());
}

const Value& Interpreter::output(Rank rank, uint32_t part, uint64_t index) const {
  const Member& member = members_[rank];
  return member.cells[member.parts[static_cast<int>(Space::output)][part].first + index].value;
}

Interpreter::Cells Interpreter::resolve(Rank rank, const Slice& slice) {
  Member& member = members_[rank];
  const std::vector<Part>& parts = member.parts[static_cast<int>(slice.space)];
  Cells cells;
  uint64_t offset = slice.offset;
  for (size_t part = slice.part; part < parts.size() && cells.size() < slice.count; ++part) {
    for (; offset < parts[part].count && cells.size() < slice.count; ++offset) {
      cells.push_back(&member.cells[parts[part].first + offset]);
    }
    offset -= parts[part].count;
  }
  if (cells.size() != slice.count) error_ += "a slice runs past the end of its space\n";
  return cells;
}

std::vector<Interpreter::Cells> Interpreter::sources(Activity activity) {
  std::vector<Cells> all;
  for (const Source& source : schedules_[activity.rank].sources(step_of(activity))) {
    all.push_back(resolve(source.rank, source.slice));
  }
  return all;
}

bool Interpreter::writes(StepKind kind) {
  return kind != StepKind::send && kind != StepKind::notify && kind != StepKind::await;
}

// A copy onto itself, which happens in place.
bool Interpreter::no_op(Activity activity) {
  const Step& step = step_of(activity);
  return step.kind == StepKind::copy && resolve(activity.rank, step.to) == sources(activity)[0];
}

void Interpreter::fail(Activity activity, const std::string& what) {
  error_ += what + " at rank " + std::to_string(activity.rank) + " step " + std::to_string(activity.step) + '\n';
}

bool Interpreter::try_begin(Activity activity) {
  const Step& step = step_of(activity);
  if (step.kind == StepKind::await && members_[step.peer].mark < step.mark) return false;
  if (step.kind == StepKind::notify) members_[activity.rank].mark = step.mark;
  if (step.kind == StepKind::notify || step.kind == StepKind::await || no_op(activity)) {
    done(activity);
    return true;
  }
  const Cells to = writes(step.kind) ? resolve(activity.rank, step.to) : Cells{};
  if (!to.empty() && step.to.space == Space::input) fail(activity, "the input is written");
  for (const Source& source : schedules_[activity.rank].sources(step)) {
    if (source.rank != activity.rank && members_[source.rank].left == 0)
      fail(activity, "memory is read that was given back");
  }
  for (Cell* cell : to) {
    if (cell->readers > 0 || cell->writing) fail(activity, "a write races");
    cell->writing = true;
  }
  for (const Cells& source : sources(activity)) {
    for (Cell* cell : source) {
      const bool own = cell->writing && std::find(to.begin(), to.end(), cell) != to.end();
      if (cell->writing && !own) fail(activity, "a read races");
      if (!cell->value.valid) fail(activity, "a read finds nothing");
      ++cell->readers;
    }
  }
  if (step.kind == StepKind::send && options_.rendezvous) posted_[{activity.rank, step.peer, step.message}] = activity;
  active_.push_back(activity);
  return true;
}

bool Interpreter::try_end(Activity activity) {
  const Step& step = step_of(activity);
  const bool receives = step.kind == StepKind::receive || step.kind == StepKind::receive_reduce;
  if (step.kind == StepKind::send && options_.rendezvous) return false;  // its receive ends it
  std::vector<std::vector<Value>> values;
  for (const Cells& source : sources(activity)) {
    values.emplace_back();
    for (const Cell* cell : source) values.back().push_back(cell->value);
  }
  if (step.kind == StepKind::send) {
    mail_[{activity.rank, step.peer, step.message}] = values[0];
  } else if (receives) {
    const Message message{step.peer, activity.rank, step.message};
    if (options_.rendezvous) {
      const auto posted = posted_.find(message);
      if (posted == posted_.end()) return false;
      const Activity sender = posted->second;
      posted_.erase(posted);
      const Cells from = sources(sender)[0];
      std::vector<Value> arrived;
      for (const Cell* cell : from) arrived.push_back(cell->value);
      finish_receive(activity, arrived);
      active_.erase(std::find_if(active_.begin(), active_.end(), [&](const Activity& other) {
        return other.rank == sender.rank && other.step == sender.step;
      }));
      unlock(sender);
      done(sender);
    } else {
      const auto mail = mail_.find(message);
      if (mail == mail_.end()) return false;
      finish_receive(activity, mail->second);
      mail_.erase(mail);
    }
  } else {
    const Cells to = resolve(activity.rank, step.to);
    const bool folds = step.kind == StepKind::reduce || step.kind == StepKind::get_reduce;
    for (size_t i = 0; i < to.size() && error_.empty(); ++i) {
      std::vector<Value> operands;
      for (const std::vector<Value>& source : values) operands.push_back(source[i]);
      for (const Value& operand : operands) {
        if (folds && operand.finished) fail(activity, "a finished element is folded");
      }
      to[i]->value = folds ? fold(operands, step.finish) : operands[0];
    }
  }
  unlock(activity);
  done(activity);
  return true;
}

void Interpreter::finish_receive(Activity activity, const std::vector<Value>& arrived) {
  const Step& step = step_of(activity);
  const Cells to = resolve(activity.rank, step.to);
  if (to.size() != arrived.size()) return fail(activity, "a message has another length than its receive");
  for (size_t i = 0; i < to.size(); ++i) {
    if (step.kind == StepKind::receive) {
      to[i]->value = arrived[i];
      continue;
    }
    const Value own = to[i]->value;
    if (!own.valid) fail(activity, "a fold finds nothing");
    if (own.finished || arrived[i].finished) fail(activity, "a finished element is folded");
    to[i]->value = step.received_first ? fold({arrived[i], own}, step.finish) : fold({own, arrived[i]}, step.finish);
  }
}

void Interpreter::unlock(Activity activity) {
  const Step& step = step_of(activity);
  if (writes(step.kind)) {
    for (Cell* cell : resolve(activity.rank, step.to)) cell->writing = false;
  }
  for (const Cells& source : sources(activity)) {
    for (Cell* cell : source) --cell->readers;
  }
}

void Interpreter::done(Activity activity) {
  Member& member = members_[activity.rank];
  for (const StepIndex follower : member.followers[activity.step]) {
    if (--member.waits[follower] == 0) waiting_.push_back({activity.rank, follower});
  }
  if (--member.left > 0) return;
  for (const Cell& cell : member.cells) {
    if (cell.readers > 0 || cell.writing) return fail(activity, "the operation is over while its memory is in use");
  }
}

// Takes out of `from` the first activity, counted from a random one, whose attempt succeeds.
bool Interpreter::advance_one(std::vector<Activity>* from, bool (Interpreter::*attempt)(Activity)) {
  const size_t size = from->size();
  const size_t start = size == 0 ? 0 : random_() % size;
  for (size_t k = 0; k < size; ++k) {
    const Activity activity = (*from)[(start + k) % size];
    if (!(this->*attempt)(activity)) continue;
    from->erase(std::find_if(from->begin(), from->end(), [&](const Activity& other) {
      return other.rank == activity.rank && other.step == activity.step;
    }));
    return true;
  }
  return false;
}

std::string Interpreter::run() {
  while (error_.empty()) {
    const bool begin_first = options_.early || random_() % 2 == 0;
    if (begin_first && advance_one(&waiting_, &Interpreter::try_begin)) continue;
    if (advance_one(&active_, &Interpreter::try_end)) continue;
    if (advance_one(&waiting_, &Interpreter::try_begin)) continue;
    break;
  }
  for (Rank rank = 0; rank < members_.size() && error_.empty(); ++rank) {
    if (members_[rank].left > 0) error_ = "deadlock: rank " + std::to_string(rank) + " has steps left";
  }
  if (error_.empty() && !mail_.empty()) error_ = "a message was not received";
  return error_;
}

}  // namespace regroup::testing
