// SPDX-License-Identifier: Apache-2.0
// The verifier against damaged schedules: it has to refuse every mutant that can go wrong. What it lets through is run
// on values by an interpreter that shares no code with it, in many orders, and must come out right each time.
#include "verify/mutate.h"

#include <gtest/gtest.h>

#include <array>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>

#include "algorithms/catalogue.h"
#include "support/interpreter.h"
#include "verify/cases.h"
#include "verify/suite.h"

namespace regroup::verify {
namespace {

using algorithms::Algorithm;
using plan::Problem;
using plan::Schedule;

constexpr Rank kSizes[] = {2, 3, 5, 8};
constexpr int kMutantsPerCase = 2;   // of each kind
constexpr uint64_t kCaseStride = 3;  // every so many cases
constexpr uint64_t kMostElements = 40;
constexpr int kOrders = 24;

struct Tally {
  uint64_t mutants = 0, escaped = 0;
  std::map<std::string, uint64_t> faults;     // of those refused: the first finding
  std::map<std::string, uint64_t> survivors;  // of those let through: kind of step, and why that may be right
};

// Why a mutant may be as good as the original.
std::string_view excuse(Mutation mutation, plan::StepKind kind) {
  const bool marks = kind == plan::StepKind::notify || kind == plan::StepKind::await;
  switch (mutation) {
    case Mutation::drop_step:
    case Mutation::retarget_peer:
    case Mutation::swap_steps:
      return marks ? "what it waits for is implied elsewhere, or not needed" : "its place in the order is not needed";
    case Mutation::change_mark:
      return "the same notification satisfies the same waits";
    case Mutation::swap_peers:
    case Mutation::reorder_operands:
      return "another order of folding, which is the same on all ranks and not promised";
    case Mutation::retarget_slice:
      return "the same elements by another name";
    case Mutation::drop_dependency:
      return "the order is implied elsewhere, or not needed";
    case Mutation::resize:
      return "what is too much is right, or overwritten in order";
    case Mutation::flip_finish:
      break;
  }
  return "unexpected";
}

// What output element `index` of part `part` must be.
testing::Value expected(const Problem& problem, uint32_t part, uint64_t index) {
  switch (problem.collective) {
    case Collective::broadcast:
      return testing::contribution(problem.root, 0, index);
    case Collective::scatter:
      return testing::contribution(problem.root, problem.rank, index);
    case Collective::gather:
    case Collective::all_gather:
      return testing::contribution(part, 0, index);
    case Collective::all_to_all:
      return testing::contribution(part, problem.rank, index);
    default:
      break;
  }
  std::vector<testing::Value> operands;
  const uint32_t from = problem.collective == Collective::reduce_scatter ? problem.rank : 0;
  for (Rank peer = 0; peer < problem.size; ++peer) operands.push_back(testing::contribution(peer, from, index));
  return testing::fold(operands, /*finish=*/true);
}

// Empty, or what came out wrong.
std::string judge(const Algorithm& algorithm, const std::vector<Problem>& problems, const testing::Interpreter& done) {
  for (const Problem& problem : problems) {
    const std::vector<uint64_t> parts = testing::output_parts(problem);
    for (uint32_t part = 0; part < parts.size(); ++part) {
      for (uint64_t i = 0; i < parts[part]; ++i) {
        const testing::Value got = done.output(problem.rank, part, i), wanted = expected(problem, part, i);
        const bool traced = !reduces(problem.collective) || algorithm.single_fold;
        const bool right = traced ? got == wanted : got.valid && got.finished && got.sum == wanted.sum;
        if (!right) return "wrong result at rank " + std::to_string(problem.rank);
        if (problem.collective == Collective::all_reduce && got.trace != done.output(0, part, i).trace) {
          return "rank " + std::to_string(problem.rank) + "'s result differs from rank 0's";
        }
      }
    }
  }
  return {};
}

std::string interpret(const Algorithm& algorithm, const Case& test_case, const std::vector<Schedule>& schedules,
                      bool in_place) {
  for (int order = 0; order < kOrders; ++order) {
    testing::RunOptions options;
    options.in_place = in_place;
    options.rendezvous = order % 2 == 0;
    options.early = order / 2 % 3 == 0;
    options.seed = static_cast<uint64_t>(order);
    testing::Interpreter interpreter(test_case.problems, schedules, options);
    std::string wrong = interpreter.run();
    if (wrong.empty()) wrong = judge(algorithm, test_case.problems, interpreter);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

bool small(const Case& test_case) {
  for (const Problem& problem : test_case.problems) {
    uint64_t total = problem.count;
    for (const uint64_t count : problem.counts) total = std::max(total, count);
    if (total > kMostElements) return false;
  }
  return true;
}

class Mutants : public ::testing::Test {
 protected:
  void damage(const Algorithm& algorithm, const Case& test_case) {
    const std::vector<Schedule> schedules = plan_all(algorithm, test_case);
    for (int kind = 0; kind < kMutations; ++kind) {
      for (int i = 0; i < kMutantsPerCase; ++i) {
        const auto mutant = mutate(schedules, static_cast<Mutation>(kind), random_);
        if (mutant) try_one(algorithm, test_case, *mutant, tallies_[static_cast<size_t>(kind)]);
      }
    }
  }

  void try_one(const Algorithm& algorithm, const Case& test_case, const Mutant& mutant, Tally& tally) {
    const bool both = algorithm.in_place && test_case.in_place_possible;
    ++tally.mutants;
    for (const bool in_place : {false, true}) {
      if (in_place && !both) continue;
      const auto findings =
          verify(expectation(algorithm, test_case.problems, in_place), mutant.schedules, expectation(algorithm));
      if (findings.empty()) continue;
      ++tally.faults[std::string(name(findings[0].fault))];
      return;
    }
    ++tally.escaped;
    const std::string which = std::string(name(algorithm.collective)) + " " + std::string(algorithm.name);
    ++tally.survivors[std::string(plan::name(mutant.kind)) + ": " + std::string(excuse(mutant.mutation, mutant.kind))];
    for (const bool in_place : {false, true}) {
      if (in_place && !both) continue;
      EXPECT_EQ(interpret(algorithm, test_case, mutant.schedules, in_place), "")
          << which << ", " << test_case.text << (in_place ? ", in place" : "") << ": rank " << mutant.rank << " step "
          << mutant.step << " " << mutant.text << '\n'
          << to_string(mutant.schedules[mutant.rank]);
    }
  }

  void print() const {
    for (size_t kind = 0; kind < kMutations; ++kind) {
      const Tally& tally = tallies_[kind];
      std::cout << std::left << std::setw(17) << name(static_cast<Mutation>(kind)) << std::right << std::setw(6)
                << tally.mutants << " mutants, " << std::setw(5) << tally.escaped << " escaped;";
      for (const auto& [fault, count] : tally.faults) std::cout << ' ' << fault << ' ' << count;
      std::cout << '\n';
      for (const auto& [reason, count] : tally.survivors) {
        std::cout << std::setw(23) << count << " escaped, " << reason << '\n';
      }
    }
  }

  // Per cent.
  double refused(Mutation mutation) const {
    const Tally& tally = tallies_[static_cast<size_t>(mutation)];
    return 100.0 * static_cast<double>(tally.mutants - tally.escaped) / static_cast<double>(tally.mutants);
  }

  std::array<Tally, kMutations> tallies_;
  std::mt19937_64 random_{20240607};
};

TEST_F(Mutants, ThatCanGoWrongAreRefused) {
  uint64_t cases = 0;
  for (const Algorithm& algorithm : algorithms::catalogue()) {
    for (const Rank size : kSizes) {
      for_each_case(algorithm, size, [&](const Case& test_case) {
        if (small(test_case) && ++cases % kCaseStride == 0) damage(algorithm, test_case);
      });
    }
  }
  print();
  EXPECT_GT(refused(Mutation::resize), 99);
  EXPECT_EQ(refused(Mutation::flip_finish), 100);
  for (const Mutation mutation : {Mutation::drop_step, Mutation::swap_steps, Mutation::swap_peers,
                                  Mutation::retarget_peer, Mutation::retarget_slice, Mutation::drop_dependency}) {
    EXPECT_GT(refused(mutation), 90) << name(mutation);
  }
  EXPECT_GT(refused(Mutation::change_mark), 50);       // of awaits of a rank's only mark, any mark up to it is right
  EXPECT_GT(refused(Mutation::reorder_operands), 25);  // where no order is promised, most are right
}

}  // namespace
}  // namespace regroup::verify
