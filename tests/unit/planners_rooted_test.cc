// SPDX-License-Identifier: Apache-2.0
// Runs every planner of planners_rooted.h on concrete values: all ranks, in random orders, against what the collective
// means.
#include "algorithms/planners_rooted.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "algorithms/batch.h"
#include "unit/schedule_interpreter.h"

namespace regroup::algorithms {
namespace {

using plan::Interpreter;
using plan::Operator;
using plan::Outcome;
using plan::Problem;
using plan::RankMemory;
using plan::Schedule;
using plan::StepKind;
using plan::Topology;
using plan::Values;

// Shows the order of its operands, whereas the other one lets it be any.
constexpr Operator kOrdered = {[](uint64_t a, uint64_t b) { return a * 3 + b; },
                               [](uint64_t a) { return a ^ (uint64_t{1} << 60); }};
constexpr Operator kUnordered = {[](uint64_t a, uint64_t b) { return a + b; },
                                 [](uint64_t a) { return a + (uint64_t{1} << 45); }};

struct Case {
  Collective collective;
  Rank size, root;
  std::vector<uint64_t> counts;              // by rank; the vector's length is counts[0]
  std::vector<std::vector<uint64_t>> pairs;  // all_to_all
  Topology topology;
  bool counts_known = true, in_place = false;
};

bool parts_in(const Case& c, Rank rank) {
  return c.collective == Collective::reduce_scatter || c.collective == Collective::all_to_all ||
         (c.collective == Collective::scatter && rank == c.root);
}
bool parts_out(const Case& c, Rank rank) {
  return c.collective == Collective::all_gather || c.collective == Collective::all_to_all ||
         (c.collective == Collective::gather && rank == c.root);
}
bool by_vector(const Case& c) {
  return c.collective == Collective::broadcast || c.collective == Collective::reduce ||
         c.collective == Collective::all_reduce;
}

std::vector<uint64_t> receive_counts(const Case& c, Rank rank) {
  std::vector<uint64_t> counts;
  for (const auto& row : c.pairs) counts.push_back(row[rank]);
  return counts;
}

Problem problem_of(const Case& c, Rank rank) {
  Problem problem;
  problem.collective = c.collective;
  problem.rank = rank;
  problem.size = c.size;
  problem.root = c.root;
  problem.topology = c.topology;
  problem.block = 2;
  problem.counts_known = c.counts_known;
  if (c.collective == Collective::barrier) return problem;
  if (c.collective == Collective::all_to_all) {
    problem.counts = c.pairs[rank];
    problem.receive_counts = receive_counts(c, rank);
    return problem;
  }
  problem.count = by_vector(c) ? c.counts[0] : c.counts[rank];
  const bool told = c.counts_known || rank == c.root || !has_root(c.collective);
  if (!by_vector(c) && told) problem.counts = c.counts;
  return problem;
}

std::vector<uint64_t> input_parts(const Case& c, Rank rank) {
  if (c.collective == Collective::barrier) return {};
  if (c.collective == Collective::all_to_all) return c.pairs[rank];
  if (parts_in(c, rank)) return c.counts;
  if ((c.collective == Collective::broadcast || c.collective == Collective::scatter) && rank != c.root) return {};
  return {by_vector(c) ? c.counts[0] : c.counts[rank]};
}

std::vector<uint64_t> output_parts(const Case& c, Rank rank) {
  if (c.collective == Collective::barrier) return {};
  if (c.collective == Collective::all_to_all) return receive_counts(c, rank);
  if (parts_out(c, rank)) return c.counts;
  if ((c.collective == Collective::reduce || c.collective == Collective::gather) && rank != c.root) return {};
  return {by_vector(c) ? c.counts[0] : c.counts[rank]};
}

uint64_t before(const std::vector<uint64_t>& counts, Rank rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
}

RankMemory memory_of(const Case& c, Rank rank) {
  RankMemory memory;
  memory.input_parts = input_parts(c, rank);
  memory.output_parts = output_parts(c, rank);
  const uint64_t total = std::accumulate(memory.input_parts.begin(), memory.input_parts.end(), uint64_t{0});
  for (uint64_t i = 0; i < total; ++i) memory.input.push_back((rank + 1) * 1000003 + i * 17);
  if (c.in_place && !memory.input_parts.empty() && !memory.output_parts.empty()) {
    const int64_t own = static_cast<int64_t>(by_vector(c) ? 0 : before(c.counts, rank));
    if (parts_out(c, rank))
      memory.input_at = own;
    else
      memory.output_at = parts_in(c, rank) ? own : 0;
  }
  return memory;
}

Values piece(const Values& values, uint64_t offset, uint64_t count) {
  return {values.begin() + static_cast<int64_t>(offset), values.begin() + static_cast<int64_t>(offset + count)};
}

Values folded(const std::vector<RankMemory>& memory, Operator op, uint64_t offset, uint64_t count) {
  Values result = piece(memory[0].input, offset, count);
  for (uint64_t i = 0; i < count; ++i) {
    for (size_t rank = 1; rank < memory.size(); ++rank) result[i] = op.fold(result[i], memory[rank].input[offset + i]);
    result[i] = op.last(result[i]);
  }
  return result;
}

Values expected_of(const Case& c, const std::vector<RankMemory>& memory, Operator op, Rank rank) {
  if (output_parts(c, rank).empty()) return {};
  switch (c.collective) {
    case Collective::broadcast:
      return memory[c.root].input;
    case Collective::reduce:
    case Collective::all_reduce:
      return folded(memory, op, 0, c.counts[0]);
    case Collective::reduce_scatter:
      return folded(memory, op, before(c.counts, rank), c.counts[rank]);
    case Collective::scatter:
      return piece(memory[c.root].input, before(c.counts, rank), c.counts[rank]);
    default:
      break;
  }
  Values result;
  for (Rank from = 0; from < c.size; ++from) {
    Values part = memory[from].input;
    if (c.collective == Collective::all_to_all) part = piece(part, before(c.pairs[from], rank), c.pairs[from][rank]);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

std::vector<std::vector<RankMemory>> as_members(const std::vector<RankMemory>& memory) {
  std::vector<std::vector<RankMemory>> by_rank;
  for (const RankMemory& rank : memory) by_rank.push_back({rank});
  return by_rank;
}

// What the catalogue says of the schedule's use of peers' memory.
std::string check_reads(const Algorithm& algorithm, const Case& c, const Schedule& schedule) {
  for (const auto& step : schedule.steps()) {
    std::set<Rank> peers;
    if (step.kind == StepKind::await) peers.insert(step.peer);
    for (const auto& source : schedule.sources(step)) peers.insert(source.rank);
    for (const Rank peer : peers) {
      if (algorithm.reads == Algorithm::Reads::inside_hosts && !c.topology.same_host(peer, schedule.rank())) {
        return "looks at a rank of another host";
      }
    }
  }
  return algorithm.reads == Algorithm::Reads::none && schedule.one_sided() ? "reads peers' memory" : "";
}

// 0: does not fit; 1: right; −1: wrong.
int check(const Algorithm& algorithm, Case c, uint64_t seed) {
  if (!algorithm.fits(problem_of(c, 0))) return 0;
  const Operator op = algorithm.single_fold ? kOrdered : kUnordered;
  for (int variant = 0; variant < 4; ++variant) {
    c.in_place = variant >= 2;
    if (c.in_place && !algorithm.in_place) continue;
    std::vector<Schedule> schedules;
    std::vector<RankMemory> memory;
    for (Rank rank = 0; rank < c.size; ++rank) {
      schedules.push_back(algorithm.plan(problem_of(c, rank)));
      memory.push_back(memory_of(c, rank));
      EXPECT_EQ(check_reads(algorithm, c, schedules.back()), "");
    }
    const Outcome outcome = Interpreter(schedules, as_members(memory), op, variant % 2 == 0, seed + variant).run();
    bool right = outcome.failure.empty() && !(c.collective == Collective::barrier && outcome.left_early);
    for (Rank rank = 0; rank < c.size && right; ++rank)
      right = outcome.outputs[rank][0] == expected_of(c, memory, op, rank);
    EXPECT_TRUE(right) << name(c.collective) << ' ' << algorithm.name << " size " << c.size << " root " << c.root
                       << " counts " << testing::PrintToString(c.counts) << (c.in_place ? " in place " : " ")
                       << outcome.failure << '\n'
                       << to_string(schedules[c.root]);
    if (!right) return -1;
  }
  return 1;
}

std::vector<std::vector<uint64_t>> count_patterns(Rank size) {
  std::vector<std::vector<uint64_t>> patterns;
  for (const uint64_t count : {0u, 1u, size, 3 * size + 1}) patterns.emplace_back(size, count);
  patterns.emplace_back(size);
  for (Rank rank = 0; rank < size; ++rank) patterns.back()[rank] = (rank * 7 + size) % 5 * (rank % 3);
  patterns.emplace_back(size, 0);
  patterns.back()[size - 1] = 11;
  return patterns;
}

std::vector<std::vector<uint64_t>> pairs_of(const std::vector<uint64_t>& counts) {
  std::vector<std::vector<uint64_t>> pairs;
  for (size_t from = 0; from < counts.size(); ++from) {
    pairs.emplace_back();
    for (size_t to = 0; to < counts.size(); ++to) pairs.back().push_back((from * 5 + to * 3 + counts[from]) % 4);
  }
  return pairs;
}

void check_all(const Algorithm& algorithm, Rank size, const Topology& topology, bool few_roots) {
  uint64_t seed = size;

  for (const auto& counts : count_patterns(size)) {
    for (Rank root = 0; root < size; root += few_roots ? size / 2 + 1 : 1) {
      Case c = {algorithm.collective, size, root, counts, {}, topology};
      if (c.collective == Collective::all_to_all) c.pairs = pairs_of(counts);
      for (const bool known : {true, false}) {
        c.counts_known = known;
        const int result = check(algorithm, c, seed += 4);
        if (result < 0) return;

        if (c.collective != Collective::gather && c.collective != Collective::scatter) break;
      }
      if (!has_root(c.collective)) break;
    }
    if (algorithm.collective == Collective::barrier) break;
  }
}

TEST(PlannersRooted, OneHost) {
  for (const Algorithm& algorithm : rooted_algorithms()) {
    for (const Rank size : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 13u, 16u, 17u, 64u}) {
      check_all(algorithm, size, Topology::one_host(size), size > 17);
      if (HasFailure()) break;
    }
  }
}

TEST(PlannersRooted, SeveralHosts) {
  const std::vector<std::vector<uint32_t>> placements = {
      {0, 1},
      {0, 0, 1},
      {0, 1, 0, 1},
      {0, 0, 1, 1},
      {0, 1, 1, 1, 1, 0, 2},
      {0, 1, 2, 0, 1},
      {2, 1, 0, 1, 1},
      {0, 0, 1, 1, 2, 2},
      {0, 1, 2, 2, 1, 0},
      {0, 0, 0, 0, 0, 1},
      {0, 1, 2},
      {0},
      {0, 1, 2, 3, 3, 2, 1},
      {0, 0, 0, 0, 1, 1, 1},
      {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 1},
  };
  for (const Algorithm& algorithm : rooted_algorithms()) {
    for (const auto& hosts : placements) {
      check_all(algorithm, static_cast<Rank>(hosts.size()), Topology(hosts), hosts.size() > 8);
      if (HasFailure()) break;
    }
  }
}

// A batch of any planners, on ranks of two hosts: members that are alike, that differ, with and without marks.
void check_batch(Rank size, uint32_t members, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Topology topology = size > 3 ? Topology::uniform(2, size / 2) : Topology::one_host(size);
  const auto patterns = count_patterns(size);
  std::vector<Case> cases;
  std::vector<const Algorithm*> algorithms;
  while (cases.size() < members) {
    const Algorithm& algorithm = rooted_algorithms()[random() % rooted_algorithms().size()];
    Case c = {algorithm.collective,
              size,
              static_cast<Rank>(random() % size),
              patterns[random() % patterns.size()],
              {},
              topology};
    if (c.collective == Collective::all_to_all) c.pairs = pairs_of(c.counts);
    c.in_place = algorithm.in_place && random() % 2 == 0;
    if (!algorithm.fits(problem_of(c, 0))) continue;
    cases.push_back(c);
    algorithms.push_back(&algorithm);
  }
  std::vector<Schedule> schedules;
  std::vector<std::vector<RankMemory>> by_rank(size), by_member(members);
  for (Rank rank = 0; rank < size; ++rank) {
    std::vector<Schedule> parts;
    for (uint32_t i = 0; i < members; ++i) {
      parts.push_back(algorithms[i]->plan(problem_of(cases[i], rank)));
      by_rank[rank].push_back(memory_of(cases[i], rank));
      by_member[i].push_back(by_rank[rank].back());
    }
    schedules.push_back(plan_batch(parts));
    ASSERT_EQ(schedules.back().members(), members);
  }
  const Outcome outcome = Interpreter(schedules, by_rank, kUnordered, seed % 2 == 0, seed).run();
  ASSERT_EQ(outcome.failure, "");
  for (Rank rank = 0; rank < size; ++rank) {
    for (uint32_t i = 0; i < members; ++i) {
      ASSERT_EQ(outcome.outputs[rank][i], expected_of(cases[i], by_member[i], kUnordered, rank))
          << "member " << i << ": " << name(cases[i].collective) << ' ' << algorithms[i]->name;
    }
  }
}

TEST(Batch, RunsItsMembersTogether) {
  for (const Rank size : {1u, 2u, 3u, 4u, 6u, 8u}) {
    for (uint32_t members = 1; members < 12 && !HasFatalFailure(); ++members) {
      for (uint64_t seed = 0; seed < 6; ++seed) check_batch(size, members, seed * 100 + members);
    }
  }
  check_batch(4, 3000, 1);
}

TEST(Batch, LeavesMarksToEachMember) {
  EXPECT_EQ(marks_in_batch(1), plan::kDone - 1);
  EXPECT_EQ(marks_in_batch(kMostMembers), 255u);
  for (const size_t members : {1u, 2u, 1000u, kMostMembers}) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1000000}, ~uint64_t{0}}) {
      const uint64_t block = least_block_in_batch(count, members);
      ASSERT_GT(block, 0u);
      EXPECT_LE(count / block + (count % block != 0), marks_in_batch(members));
    }
  }
  EXPECT_TRUE(plan_batch({}).steps().empty());
}

}  // namespace
}  // namespace regroup::algorithms
