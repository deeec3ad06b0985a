// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "algorithms/catalogue.h"
#include "unit/selection_problem.h"

namespace regroup::algorithms {
namespace {

using plan::Problem;
using plan::Topology;

std::string_view chosen(Collective collective, const Topology& topology, const Facts& facts,
                        bool equal_counts = false) {
  Problem problem = problem_of(collective, topology);
  problem.equal_counts = equal_counts;
  return select(problem, facts).algorithm->name;
}

TEST(Catalogue, NamesEveryAlgorithmOnceAndFindsIt) {
  for (const Algorithm& algorithm : catalogue()) {
    EXPECT_EQ(find(algorithm.collective, algorithm.name), &algorithm) << algorithm.name;
    EXPECT_FALSE(algorithm.source.empty());
    EXPECT_TRUE(reduces(algorithm.collective) || algorithm.single_fold);
  }
  EXPECT_EQ(find(Collective::all_reduce, "nonesuch"), nullptr);
  EXPECT_EQ(find(Collective::all_to_all, "ring"), nullptr);
}

TEST(Selection, AlwaysFindsSomethingUsableAndTheSameOnAllRanks) {
  const Topology topologies[] = {Topology::one_host(1),    Topology::one_host(2),    Topology::one_host(7),
                                 Topology::uniform(2, 4),  Topology::uniform(16, 1), Topology({0, 1, 0, 2, 2, 2}),
                                 Topology::uniform(300, 8)};
  for (const Algorithm& row : catalogue()) {
    for (const Topology& topology : topologies) {
      for (int bits = 0; bits < 16; ++bits) {
        for (const uint64_t bytes : {0ull, 8ull, 10000ull, 100000ull, 1ull << 40}) {
          const Facts facts{.one_sided_everywhere = (bits & 1) != 0,
                            .one_sided_inside_hosts = (bits & 3) != 0,
                            .staging = (bits & 8) != 0,
                            .single_fold_needed = (bits & 4) != 0,
                            .bytes = bytes};
          Problem problem = problem_of(row.collective, topology);
          problem.equal_counts = (bits & 8) != 0;
          const Selection selection = select(problem, facts);
          ASSERT_NE(selection.algorithm, nullptr);
          EXPECT_TRUE(usable(*selection.algorithm, problem, facts));
          EXPECT_FALSE(selection.reason.empty());
          EXPECT_EQ(select(problem.seen_by(problem.size - 1), facts).algorithm, selection.algorithm);
        }
      }
    }
  }
}

TEST(Selection, ReadsPeersMemoryWhereItMay) {
  const Topology host = Topology::one_host(4);
  const Facts small{.one_sided_everywhere = true, .one_sided_inside_hosts = true, .bytes = 65536};
  Facts large = small;
  large.bytes = 65537;
  EXPECT_EQ(chosen(Collective::all_reduce, host, small), "direct_one_phase");
  EXPECT_EQ(chosen(Collective::all_reduce, host, large), "direct");
  EXPECT_EQ(chosen(Collective::all_reduce, Topology::one_host(32), small), "direct");
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all}) {
    EXPECT_EQ(chosen(c, host, small), "direct");
  }
}

TEST(Selection, GoesByBytesWhereItSendsMessages) {
  const Topology eight = Topology::uniform(8, 1);
  const Topology nine = Topology::uniform(9, 1);
  const Facts small{.bytes = 4096};
  const Facts medium{.bytes = 256 * 1024};
  const Facts large{.bytes = 64 << 20};
  EXPECT_EQ(chosen(Collective::all_reduce, nine, small), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::all_reduce, nine, medium), "rabenseifner");
  EXPECT_EQ(chosen(Collective::all_reduce, nine, large), "ring");
  EXPECT_EQ(chosen(Collective::all_gather, eight, small), "recursive_doubling");
  EXPECT_EQ(chosen(Collective::all_gather, nine, small), "bruck");
  EXPECT_EQ(chosen(Collective::all_gather, nine, large), "ring");
  EXPECT_EQ(chosen(Collective::reduce_scatter, nine, small), "recursive_halving");
  EXPECT_EQ(chosen(Collective::reduce_scatter, nine, large), "ring");
  EXPECT_EQ(chosen(Collective::all_to_all, nine, large, true), "linear_shift");
}

TEST(Selection, TakesCountsForEqualOnlyWhereThatIsAgreed) {
  const Topology nine = Topology::uniform(9, 1);
  EXPECT_EQ(chosen(Collective::all_to_all, nine, {.bytes = 720}, true), "bruck");
  EXPECT_EQ(chosen(Collective::all_to_all, nine, {.bytes = 720}, false), "linear_shift");
}

TEST(Selection, FoldsOnceWhereItMust) {
  for (const uint64_t bytes : {64ull, 1ull << 30}) {
    const Facts messages{.single_fold_needed = true, .bytes = bytes};
    EXPECT_EQ(chosen(Collective::all_reduce, Topology::uniform(4, 1), messages), "exchange");
    EXPECT_EQ(chosen(Collective::reduce_scatter, Topology::uniform(4, 1), messages), "exchange");
  }
}

}  // namespace
}  // namespace regroup::algorithms
