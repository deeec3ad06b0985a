// SPDX-License-Identifier: Apache-2.0
// Runs the schedules of the collectives in which all ranks take the same part, for many sizes and counts, in random
// orders.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/planners.h"
#include "support/interpreter.h"

namespace regroup::algorithms {
namespace {

using plan::Problem;
using plan::Schedule;
using testing::Interpreter;
using testing::RunOptions;
using testing::Value;

constexpr Rank kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17};
constexpr int kPatterns = 7;
constexpr int kVariants = 4;  // of RunOptions

// What `from` has for `to`.
uint64_t count_of(int pattern, Rank size, Rank from, Rank to) {
  switch (pattern) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return size;
    case 3:
      return 3 * size + 1;
    case 4:
      return from == size / 2 ? 11 : 0;
    case 5:
      return (from * 5 + to * 3) % 7;
    default:
      return from == to ? 23 : (from + to) % 3 / 2;
  }
}

std::vector<Problem> problems_of(Collective collective, Rank size, int pattern) {
  std::vector<Problem> problems;
  for (Rank rank = 0; rank < size; ++rank) {
    Problem problem;
    problem.collective = collective;
    problem.rank = rank;
    problem.size = size;
    problem.block = collective == Collective::all_reduce ? 2 : size;
    problem.topology = plan::Topology::one_host(size);
    problem.equal_counts = pattern < 4;
    problem.count = count_of(pattern, size, size / 2, 0);
    for (Rank peer = 0; peer < size; ++peer) {
      const bool by_pair = collective == Collective::all_to_all;
      problem.counts.push_back(by_pair ? count_of(pattern, size, rank, peer) : count_of(pattern, size, peer, 0));
      if (by_pair) problem.receive_counts.push_back(count_of(pattern, size, peer, rank));
    }
    problems.push_back(problem);
  }
  return problems;
}

// What rank `rank` must find at element `index` of output part `part`, from one fold in rank order where there is one.
Value expected(const Problem& problem, Rank rank, uint32_t part, uint64_t index) {
  switch (problem.collective) {
    case Collective::all_gather:
      return testing::contribution(part, 0, index);
    case Collective::all_to_all:
      return testing::contribution(part, rank, index);
    default:
      break;
  }
  std::vector<Value> operands;
  const uint32_t from = problem.collective == Collective::reduce_scatter ? rank : 0;
  for (Rank peer = 0; peer < problem.size; ++peer) operands.push_back(testing::contribution(peer, from, index));
  return testing::fold(operands, /*finish=*/true);
}

bool shares_memory(const std::vector<Problem>& problems) {
  if (problems[0].collective != Collective::all_to_all) return true;
  for (const Problem& problem : problems) {
    if (problem.counts != problem.receive_counts) return false;
  }
  return true;
}

void check_output(const Algorithm& algorithm, const std::vector<Problem>& problems, const Interpreter& done) {
  for (const Problem& problem : problems) {
    const std::vector<uint64_t> parts = testing::output_parts(problem);
    for (uint32_t part = 0; part < parts.size(); ++part) {
      for (uint64_t i = 0; i < parts[part]; ++i) {
        const Value wanted = expected(problem, problem.rank, part, i);
        const Value& got = done.output(problem.rank, part, i);
        ASSERT_TRUE(got.valid);
        ASSERT_EQ(got.sum, wanted.sum) << "rank " << problem.rank << " part " << part << " element " << i;
        ASSERT_EQ(got.finished, wanted.finished);
        if (algorithm.single_fold) {
          ASSERT_EQ(got.trace, wanted.trace) << "not one fold in rank order";
        } else if (problem.collective == Collective::all_reduce) {
          ASSERT_EQ(got.trace, done.output(0, part, i).trace) << "ranks differ";
        }
      }
    }
  }
}

void run_all(const Algorithm& algorithm) {
  for (const Rank size : kSizes) {
    for (int pattern = 0; pattern < kPatterns; ++pattern) {
      const std::vector<Problem> problems = problems_of(algorithm.collective, size, pattern);
      if (!algorithm.fits(problems[0])) continue;
      std::vector<Schedule> schedules;
      for (const Problem& problem : problems) schedules.push_back(algorithm.plan(problem));
      for (const bool in_place : {false, true}) {
        if (in_place && !(algorithm.in_place && shares_memory(problems))) continue;
        for (int variant = 0; variant < kVariants; ++variant) {
          const RunOptions options{in_place, variant % 2 == 0, variant / 2 == 0,
                                   static_cast<uint64_t>(size * 100 + pattern)};
          Interpreter interpreter(problems, schedules, options);
          const std::string error = interpreter.run();
          ASSERT_EQ(error, "") << algorithm.name << " size " << size << " pattern " << pattern << " in place "
                               << in_place << " variant " << variant << '\n'
                               << to_string(schedules[0]);
          check_output(algorithm, problems, interpreter);
          if (::testing::Test::HasFatalFailure()) {
            FAIL() << algorithm.name << " size " << size << " pattern " << pattern << " in place " << in_place;
          }
        }
      }
    }
  }
}

class Planners : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(Planners, GiveTheRightResultInAnyOrder) { run_all(*GetParam()); }

std::vector<const Algorithm*> those_of(std::vector<Collective> collectives) {
  std::vector<const Algorithm*> found;
  for (const Collective collective : collectives) {
    for (const Algorithm& algorithm : catalogue()) {
      if (algorithm.collective == collective) found.push_back(&algorithm);
    }
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(AllRanks, Planners,
                         ::testing::ValuesIn(those_of({Collective::all_reduce, Collective::reduce_scatter,
                                                       Collective::all_gather, Collective::all_to_all})),
                         [](const auto& instance) {
                           return std::string(name(instance.param->collective)) + "_" +
                                  std::string(instance.param->name);
                         });

// Whether some order shows that the schedules are wrong.
bool goes_wrong(const Algorithm& algorithm, const std::vector<Problem>& problems,
                const std::vector<Schedule>& schedules) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RunOptions options{algorithm.in_place && seed % 5 != 0, seed % 2 == 0, seed % 4 < 2, seed};
    if (!Interpreter(problems, schedules, options).run().empty()) return true;
  }
  return false;
}

// Leaves out one dependency after the other: the interpreter must notice, and there must be none to spare.
void leave_out_each_dependency(const Algorithm& algorithm, Rank size) {
  const std::vector<Problem> problems = problems_of(algorithm.collective, size, 3);
  std::vector<Schedule> schedules;
  for (const Problem& problem : problems) schedules.push_back(algorithm.plan(problem));
  EXPECT_FALSE(goes_wrong(algorithm, problems, schedules));
  for (Rank rank = 0; rank < size; ++rank) {
    for (plan::StepIndex index = 0; index < schedules[rank].steps().size(); ++index) {
      const plan::Range after = schedules[rank].steps()[index].after;
      for (uint32_t left_out = 0; left_out < after.count; ++left_out) {
        std::vector<Schedule> damaged = schedules;
        const Schedule::Parts parts = damaged[rank].parts();
        std::swap(parts.after[after.begin + left_out], parts.after[after.begin + after.count - 1]);
        --parts.steps[index].after.count;
        EXPECT_TRUE(goes_wrong(algorithm, problems, damaged))
            << algorithm.name << " rank " << rank << " step " << index << " dependency " << left_out;
      }
    }
  }
}

TEST(SymmetricPlanners, StateNoDependencyInVain) {
  for (const std::string_view name : {"ring", "recursive_doubling", "exchange"}) {
    leave_out_each_dependency(*find(Collective::all_reduce, name), 5);
  }
  for (const std::string_view name : {"ring", "recursive_halving", "exchange"}) {
    leave_out_each_dependency(*find(Collective::reduce_scatter, name), 5);
  }
  leave_out_each_dependency(*find(Collective::all_reduce, "rabenseifner"), 4);
  leave_out_each_dependency(*find(Collective::all_gather, "ring"), 5);
  leave_out_each_dependency(*find(Collective::all_gather, "recursive_doubling"), 4);
}

// However many elements there are, blocks grow before a schedule gets out of hand: a block takes at most five steps.
TEST(SymmetricPlanners, BoundTheLengthOfSchedules) {
  for (const Algorithm& algorithm : symmetric_algorithms()) {
    Problem problem;
    problem.collective = algorithm.collective;
    problem.size = 64;
    problem.rank = 63;
    problem.count = uint64_t{1} << 44;
    problem.counts.assign(problem.size, problem.count / problem.size);
    problem.receive_counts = problem.counts;
    problem.topology = plan::Topology::one_host(problem.size);
    problem.equal_counts = true;
    EXPECT_LE(algorithm.plan(problem).steps().size(), 5u * 1024 * problem.size) << algorithm.name;
  }
}

}  // namespace
}  // namespace regroup::algorithms
