// SPDX-License-Identifier: Apache-2.0
// Tables of measured choices: what is read as one, what it leads to, and what ranks that differ in it are told.
#include "algorithms/tuning.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/catalogue.h"
#include "backend/native/tuning_file.h"
#include "regroup/regroup.h"
#include "unit/selection_problem.h"

namespace regroup::algorithms {
namespace {

using plan::Problem;
using plan::Topology;

std::string wrong(const std::string& text) {
  std::string problem;
  EXPECT_FALSE(Tuning::parse(text, "table", &problem).has_value()) << text;
  return problem;
}

Tuning right(const std::string& text) {
  std::string problem;
  std::optional<Tuning> table = Tuning::parse(text, "table", &problem);
  EXPECT_TRUE(table.has_value()) << problem;
  return table.value_or(Tuning());
}

std::string with_rows(const std::string& rows) { return "regroup-tuning 1\n" + rows; }

TEST(Tuning, ReadsRowsInTheirOrder) {
  const Tuning table =
      right("# made by hand\n\n  regroup-tuning\t1 # so\r\nall_reduce shared 4 64K direct_one_phase\r\n" +
            std::string("\tall_reduce messages 2-8 any ring # large\nbarrier anywhere 9- any dissemination\n") +
            "all_to_all by_host any 12345 hierarchical");
  ASSERT_EQ(table.rows().size(), 4u);
  const Tuning::Row& first = table.rows()[0];
  EXPECT_EQ(first.algorithm, find(Collective::all_reduce, "direct_one_phase"));
  EXPECT_EQ(first.where, Where::shared);
  EXPECT_EQ(first.ranks.least, 4u);
  EXPECT_EQ(first.ranks.most, 4u);
  EXPECT_EQ(first.up_to, 65536u);
  EXPECT_EQ(first.place, "table:4");
  EXPECT_EQ(table.rows()[1].ranks.most, 8u);
  EXPECT_EQ(table.rows()[1].up_to, kAnySize);
  EXPECT_EQ(table.rows()[2].ranks.least, 9u);
  EXPECT_EQ(table.rows()[2].ranks.most, Ranks().most);
  EXPECT_EQ(table.rows()[3].ranks.least, 1u);
  EXPECT_EQ(table.rows()[3].up_to, 12345u);
  EXPECT_EQ(table.rows()[3].place, "table:7");
  EXPECT_TRUE(right("regroup-tuning 1").rows().empty());
}

TEST(Tuning, SaysWhatIsWrongAndWhere) {
  const auto expect = [](const std::string& problem, const std::string& place, const std::string& words) {
    EXPECT_TRUE(problem.starts_with(place)) << problem;
    EXPECT_NE(problem.find(words), std::string::npos) << problem;
  };
  expect(wrong(""), "table:0: ", "regroup-tuning 1");
  expect(wrong("# nothing\n\n"), "table:2: ", "here is nothing");
  expect(wrong("{\"rows\": []}\n"), "table:1: ", "not with \"{\"rows\":\"");
  expect(wrong("regroup-tuning 2\n"), "table:1: ", "regroup-tuning 1");
  expect(wrong("all_reduce shared 4 64K direct\n"), "table:1: ", "all_reduce");
  expect(wrong(with_rows("all_reduce shared 4 64K\n")), "table:2: ", "five words");
  expect(wrong(with_rows("all_reduce shared 4 64K direct at once\n")), "table:2: ", "five words");
  expect(wrong(with_rows("\n\nall_sort shared 4 64K direct\n")), "table:4: ", "\"all_sort\"");
  expect(wrong(with_rows("batch shared 4 64K direct\n")), "table:2: ", "\"batch\"");
  expect(wrong(with_rows("all_reduce here 4 64K direct\n")), "table:2: ", "\"here\"");
  expect(wrong(with_rows("all_reduce shared 4 64K magic\n")), "table:2: ", "\"magic\" for all_reduce; there are: ring");
  expect(wrong(with_rows("all_reduce shared 4 64K pairwise\n")), "table:2: ", "\"pairwise\"");
  for (const std::string ranks : {"0", "-", "-4", "4-2", "four", "1-2-3", "4294967296", "99999999999999999999", "4+"}) {
    expect(wrong(with_rows("all_reduce shared " + ranks + " 64K ring\n")), "table:2: ", "number of ranks");
  }
  for (const std::string bytes : {"K", "64k", "-1", "1.5K", "64KB", "18446744073709551616", "99999999999G", "0x10"}) {
    expect(wrong(with_rows("all_reduce shared 4 " + bytes + " ring\n")), "table:2: ", "number of bytes");
  }
}

TEST(Tuning, IsBoundedAndPrintable) {
  std::string rows;
  for (size_t row = 0; row < Tuning::kMostRows; ++row) rows += "barrier any 1 any direct\n";
  EXPECT_NE(wrong(with_rows(rows)).find("\"any\" is no place"), std::string::npos);
  rows.clear();
  for (size_t row = 0; row < Tuning::kMostRows; ++row) rows += "barrier anywhere any any direct\n";
  EXPECT_EQ(right(with_rows(rows)).rows().size(), Tuning::kMostRows);
  EXPECT_NE(wrong(with_rows(rows + "barrier anywhere any any direct\n")).find("more than 4096 rows"),
            std::string::npos);
  EXPECT_NE(wrong(std::string(Tuning::kMostBytes + 1, '#')).find("more than"), std::string::npos);
  EXPECT_TRUE(right(with_rows(std::string(Tuning::kMostBytes - 17, '#'))).rows().empty());
  const std::string problem = wrong(std::string("\x1b[2J\0\xff", 6) + std::string(100, 'x'));
  for (const char c : problem.substr(0, problem.find("…"))) EXPECT_TRUE(c >= ' ' && c < 0x7f) << problem;
  EXPECT_LT(problem.size(), 200u);
}

TEST(Tuning, SurvivesWhateverAFileHolds) {
  const std::string_view pieces[] = {"regroup-tuning",
                                     " 1\n",
                                     "all_reduce ",
                                     "barrier ",
                                     "shared ",
                                     "messages ",
                                     "4 ",
                                     "2-8 ",
                                     "9- ",
                                     "-",
                                     "any ",
                                     "64K ",
                                     "18446744073709551615 ",
                                     "17179869183G ",
                                     "99999999999999999999G ",
                                     "ring",
                                     "direct",
                                     "\n",
                                     "#",
                                     "\t",
                                     "\r",
                                     "K",
                                     "\xff",
                                     std::string_view("\0", 1)};
  std::mt19937 random(1);
  size_t rows = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 == 0 ? "" : "regroup-tuning 1\n";
    for (size_t left = random() % 12; left > 0; --left) text += pieces[random() % std::size(pieces)];
    if (round % 3 == 1) text += "\nall_reduce shared 4 64K ring\n";
    std::string problem;
    const std::optional<Tuning> table = Tuning::parse(text, "table", &problem);
    ASSERT_NE(table.has_value(), problem.starts_with("table:")) << text;
    if (table) rows += table->rows().size();
  }
  EXPECT_GT(rows, 0u);
}

TEST(Tuning, HashesWhatItChoosesNotHowItIsWritten) {
  const uint64_t hash = right(with_rows("all_reduce shared 4 64K ring\nbarrier anywhere any any direct\n")).hash();
  EXPECT_EQ(right("#\n" + with_rows("all_reduce\tshared 4-4 65536 ring # !\n\nbarrier anywhere 1- any direct")).hash(),
            hash);
  for (const std::string other : {"all_reduce shared 4 64K ring\n", "",  //
                                  "barrier anywhere any any direct\nall_reduce shared 4 64K ring\n",
                                  "all_reduce messages 4 64K ring\nbarrier anywhere any any direct\n",
                                  "all_reduce shared 5 64K ring\nbarrier anywhere any any direct\n",
                                  "all_reduce shared 4 64K direct\nbarrier anywhere any any direct\n",
                                  "reduce_scatter shared 4 64K ring\nbarrier anywhere any any direct\n"}) {
    EXPECT_NE(right(with_rows(other)).hash(), hash) << other;
  }
  const Tuning none = right(with_rows(""));
  EXPECT_EQ(selection_hash(&none), selection_hash());
  const Tuning some = right(with_rows("barrier anywhere any any direct\n"));
  EXPECT_NE(selection_hash(&some), selection_hash());
}

TEST(Tuning, ComesBeforeTheBuiltInTable) {
  const Tuning table =
      right(with_rows("all_reduce shared 4 1M ring\nall_reduce shared 4 any recursive_doubling\n"
                      "all_reduce messages 4 any rabenseifner\nall_reduce by_host any any exchange\n"));
  const Facts shared{.one_sided_everywhere = true, .one_sided_inside_hosts = true, .bytes = 1 << 20};
  const auto chosen = [&](const Topology& topology, const Facts& facts) {
    const Selection selection = select(problem_of(Collective::all_reduce, topology), facts, &table);
    return std::string(selection.algorithm->name) + " by " + std::string(selection.row);
  };
  EXPECT_EQ(chosen(Topology::one_host(4), shared), "ring by table:2");
  Facts large = shared;
  large.bytes += 1;
  EXPECT_EQ(chosen(Topology::one_host(4), large), "recursive_doubling by table:3");
  EXPECT_EQ(chosen(Topology::one_host(3), large), "direct by built-in");
  EXPECT_EQ(chosen(Topology::uniform(4, 1), {.bytes = 8}), "rabenseifner by table:4");
  EXPECT_EQ(chosen(Topology::uniform(2, 2), {.one_sided_inside_hosts = true}), "exchange by table:5");
  // What cannot serve is passed over.
  Facts once = shared;
  once.single_fold_needed = true;
  EXPECT_EQ(chosen(Topology::one_host(4), once), "direct by built-in");
  const Selection other = select(problem_of(Collective::all_to_all, Topology::one_host(4)), shared, &table);
  EXPECT_EQ(other.row, kBuiltIn);
}

// --- files, and joining

class Files : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/regroup-tuning-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    for (const std::string& path : made_) ::unlink(path.c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path_of(const std::string& name) { return made_.emplace_back(folder_ + "/" + name); }
  std::string write(const std::string& name, const std::string& text) {
    std::string path = path_of(name);
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
  std::vector<std::string> made_;
};
using TuningFile = Files;

TEST_F(TuningFile, IsReadOrRefusedByName) {
  const auto refused = [](const std::string& path, const std::string& words) {
    const auto table = backend::native::read_tuning(path);
    ASSERT_FALSE(table.ok());
    EXPECT_EQ(table.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(table.status().to_string().find(path), std::string::npos) << table.status().to_string();
    EXPECT_NE(table.status().to_string().find(words), std::string::npos) << table.status().to_string();
  };
  const auto table = backend::native::read_tuning(write("good", with_rows("barrier anywhere any any direct\n")));
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table.value()->rows().size(), 1u);
  refused(folder_ + "/none", "No such file");
  refused(folder_, "no regular file");
  const std::string pipe = path_of("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused(pipe, "no regular file");
  refused(write("large", std::string(Tuning::kMostBytes + 1, '#')), "more than");
  const std::string bad = write("bad", with_rows("\nbarrier anywhere any any nonesuch\n"));
  refused(bad, bad + ":3: no algorithm \"nonesuch\"");
}

// Each rank with the table of its own; what joining, or then `body`, led to.
std::vector<Status> join_with(const std::vector<std::string>& tables,
                              const std::function<Status(ProcessGroup&)>& body) {
  auto store = make_hash_store();
  std::vector<Status> statuses(tables.size());
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < tables.size(); ++rank) {
    threads.emplace_back([&, rank] {
      JoinOptions options;
      options.store = store;
      options.rank = rank;
      options.size = static_cast<Rank>(tables.size());
      options.timeout = std::chrono::seconds(20);
      options.tuning = tables[rank];
      auto group = join(options);
      statuses[rank] = group.ok() ? body(*group) : group.status();
    });
  }
  for (auto& thread : threads) thread.join();
  return statuses;
}

TEST_F(TuningFile, ThatDiffersIsToldWithTheRankThatHasIt) {
  const std::string one = write("one", with_rows("all_reduce shared any any ring\n"));
  const std::string other = write("other", with_rows("all_reduce shared any any direct\n"));
  const std::vector<Status> statuses = join_with({one, one, other}, [](ProcessGroup&) { return Status(); });
  for (Rank rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::invalid_argument);
    EXPECT_EQ(statuses[rank].ranks(), std::vector<Rank>{rank == 2 ? 0u : 2u}) << statuses[rank].to_string();
    EXPECT_NE(statuses[rank].to_string().find("REGROUP_TUNING"), std::string::npos);
  }
}

TEST_F(TuningFile, WithTheSameRowsJoinsAndServesSubgroupsToo) {
  const std::string one = write("one", with_rows("all_reduce shared any any ring\n"));
  const std::string same = write("same", "# the same\n" + with_rows("all_reduce shared 1- any ring # by hand\n"));
  const auto body = [](ProcessGroup& group) {
    std::vector<int64_t> sums(4096, group.rank() + 1);
    if (Status status = group.run(all_reduce(in_place(sums))); !status.ok()) return status;
    auto part = group.split(static_cast<int>(group.rank() % 2), 0);
    if (!part.ok()) return part.status();
    if (Status status = part->run(all_reduce(in_place(sums))); !status.ok()) return status;
    const int64_t wanted = group.rank() % 2 == 0 ? 12 : 6;
    return sums.front() == wanted && sums.back() == wanted ? Status() : Status(StatusCode::internal, "wrong sums");
  };
  for (const Status& status : join_with({one, same, one}, body)) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(TuningFile, ComesFromTheEnvironmentUnlessTheProgramSaysOtherwise) {
  const std::string bad = write("bad", "nonsense\n");
  ASSERT_EQ(::setenv("REGROUP_TUNING", bad.c_str(), 1), 0);
  JoinOptions options;
  options.rank = 0;
  options.size = 1;
  const auto refused = join(options);
  options.tuning = "";
  const auto joined = join(options);
  ::unsetenv("REGROUP_TUNING");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.status().to_string().find(bad + ":1:"), std::string::npos) << refused.status().to_string();
  EXPECT_TRUE(joined.ok());
}

}  // namespace
}  // namespace regroup::algorithms
