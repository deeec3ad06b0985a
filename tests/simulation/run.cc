// SPDX-License-Identifier: Apache-2.0
#include "simulation/run.h"

#include "base/hash.h"

namespace regroup::simulation {

using executor::Eager;
using executor::Execution;
using transport::Gathering;
using transport::sim::SimNetwork;
using Turn = SimNetwork::Turn;

Driver::Driver(transport::sim::SimTransport& transport, Rank rank, std::vector<Operation>& operations, uint64_t seed)
    : transport_(transport), rank_(rank), operations_(operations), random_(base::mix(seed, rank)) {}

Turn Driver::turn() {
  bool moved = true;
  if (phase_ == Phase::idle) {
    begin();
  } else if (phase_ != Phase::over) {
    moved = run();
  }
  if (phase_ == Phase::over) return Turn::finished;
  return moved ? Turn::moved : Turn::waiting;
}

void Driver::begin() {
  if (at_ == operations_.size()) return end(Verdict::done);
  memories_.push_back(std::make_unique<RankMemory>(operation(), rank_, random_));
  RankMemory& memory = *memories_.back();
  const transport::Signature& signature = other_signature_ != nullptr ? *other_signature_ : operation().signature;
  if (!operation().eager && !memory.shows_pairs()) return begin_planned(memory, signature);
  if (operation().eager) memory.bind(nullptr);
  phase_ = Phase::eager;
  eager_.start(memory.eager_call(), signature, transport::fingerprint(signature), at_ + 1, transport_);
}

void Driver::begin_planned(RankMemory& memory, const transport::Signature& signature) {
  const uint64_t scratch = memory.scratch_bytes();
  memory.bind(scratch > 0 ? transport_.scratch(scratch) : nullptr);
  transport::Opening opening{.sequence = at_ + 1, .signature = signature, .members = memory.memories()};
  const Member& member = operation().members[0];
  const plan::Problem& problem = member.call.test_case.problems[rank_];
  if (operation().members.size() == 1 && problem.collective == Collective::all_to_all && !problem.equal_counts) {
    gives_.clear();
    takes_.clear();
    for (const uint64_t count : problem.counts) gives_.push_back(count * size_of(member.type));
    for (const uint64_t count : problem.receive_counts) takes_.push_back(count * size_of(member.type));
    opening.gives = gives_;
    opening.takes = takes_;
  }
  phase_ = Phase::gathering;
  transport_.begin(opening);
}

// True if anything was done.
bool Driver::run() {
  const bool moved = transport_.progress();
  if (phase_ == Phase::eager) {
    const Eager::Outcome outcome = eager_.advance();
    if (outcome == Eager::Outcome::waiting) return moved;
    if (outcome == Eager::Outcome::done) {
      transport_.end();
      finish();
    } else if (outcome == Eager::Outcome::withdrawn) {
      fail();
      verdict_ = Verdict::withdrawn;
    } else if (outcome == Eager::Outcome::planned) {
      begin_planned(*memories_.back(), other_signature_ != nullptr ? *other_signature_ : operation().signature);
    } else {
      if (transport_.gathered(&conflict_) != Gathering::conflict) {
        text_ = "a conflict that the lines do not show";
        end(Verdict::wrong);
        return true;
      }
      fail();
      verdict_ = Verdict::conflict;
    }
    return true;
  }
  if (phase_ == Phase::gathering) {
    const Gathering gathering = transport_.gathered(&conflict_);
    if (gathering == Gathering::waiting) return moved;
    if (gathering != Gathering::complete) {
      fail();
      verdict_ = gathering == Gathering::conflict ? Verdict::conflict : Verdict::lost;
      return true;
    }
    phase_ = Phase::running;
    const auto& signature = other_signature_ != nullptr ? *other_signature_ : operation().signature;
    execution_.start(*operation().programs[rank_], memories_.back()->bindings(), transport_, at_ + 1,
                     transport::fingerprint(signature));
    return true;
  }
  const auto failed = [this](Verdict verdict) {
    fail();
    verdict_ = verdict;
    return true;
  };
  switch (execution_.advance()) {
    case Execution::Outcome::waiting:
      return moved;
    case Execution::Outcome::moved:
      return true;
    case Execution::Outcome::done:
      transport_.end();
      finish();
      return true;
    case Execution::Outcome::mismatched:
      return failed(Verdict::mismatched);
    case Execution::Outcome::withdrawn:
      return failed(Verdict::withdrawn);
    case Execution::Outcome::lost:
      return failed(Verdict::lost);
  }
  return false;
}

// The operation is done: looks at what came out, and hands the memory back to a caller that makes other use of it.
void Driver::finish() {
  RankMemory& memory = *memories_.back();
  text_ = memory.check();
  memory.poison();
  if (!text_.empty()) {
    text_ = "rank " + std::to_string(rank_) + ", operation " + std::to_string(at_ + 1) + ": " + text_;
    return end(Verdict::wrong);
  }
  ++at_;
  phase_ = Phase::idle;
}

void Driver::fail() {
  if (phase_ == Phase::over) return;
  if (phase_ == Phase::idle) return end(Verdict::none);
  transport_.withdraw();
  if (phase_ == Phase::running) execution_.cancel();
  transport_.end();
  memories_.back()->poison();
  end(Verdict::none);
}

void Driver::end(Verdict verdict) {
  phase_ = Phase::over;
  verdict_ = verdict;
}

std::string Driver::check_later() const {
  for (size_t i = 0; i < memories_.size() && (i < at_ || phase_ == Phase::over); ++i) {
    const std::string wrong = memories_[i]->check_poison();
    if (!wrong.empty()) return "rank " + std::to_string(rank_) + ", operation " + std::to_string(i + 1) + ": " + wrong;
  }
  return {};
}

std::string Driver::describe() const {
  std::vector<Rank> ranks;
  if (phase_ == Phase::running) execution_.waiting_for(&ranks);
  if (phase_ == Phase::eager) eager_.missing(&ranks);
  std::string text = "rank " + std::to_string(rank_) + ", operation " + std::to_string(at_ + 1) + ", waits for";
  if (phase_ == Phase::gathering) return text + " arrivals";
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  return text;
}

Group::Group(const transport::sim::SimOptions& options, std::vector<Operation>& operations) : network_(options) {
  for (Rank rank = 0; rank < options.size; ++rank) {
    drivers_.push_back(std::make_unique<Driver>(network_.at(rank), rank, operations, options.seed));
  }
}

SimNetwork::Ending Group::run() {
  std::vector<std::function<Turn()>> turns;
  for (Rank rank = 0; rank < size(); ++rank) {
    turns.push_back([this, rank] {
      if (before_turn) before_turn(rank);
      return drivers_[rank]->turn();
    });
  }
  return network_.run(turns);
}

std::string Group::wrongs() const {
  std::string text;
  for (const std::string& violation : network_.violations()) text += violation + "\n";
  for (const auto& driver : drivers_) {
    if (driver->verdict() == Driver::Verdict::wrong) text += driver->text() + "\n";
    if (const std::string wrong = driver->check_later(); !wrong.empty()) text += wrong + "\n";
  }
  return text;
}

std::string Group::describe() const {
  std::string text;
  for (const auto& driver : drivers_) {
    if (driver->verdict() == Driver::Verdict::none) text += driver->describe() + "\n";
  }
  return text + network_.describe();
}

RunResult run_operations(const transport::sim::SimOptions& options, std::vector<Operation>& operations) {
  Group group(options, operations);
  const SimNetwork::Ending ending = group.run();
  RunResult result{group.wrongs(), group.network().trace()};
  for (Rank rank = 0; rank < group.size(); ++rank) {
    if (group.driver(rank).verdict() <= Driver::Verdict::wrong) continue;
    result.failure += "rank " + std::to_string(rank) + " ended with verdict " +
                      std::to_string(static_cast<int>(group.driver(rank).verdict())) + "\n";
  }
  if (ending == SimNetwork::Ending::stuck) result.failure += "nobody can go on:\n" + group.describe();
  if (ending == SimNetwork::Ending::exhausted) result.failure += "too many turns:\n" + group.describe();
  return result;
}

}  // namespace regroup::simulation
