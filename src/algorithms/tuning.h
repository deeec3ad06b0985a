// SPDX-License-Identifier: Apache-2.0
// A table of choices made by measurement, as `regroup bench --tune` writes it: rows that come before the built-in ones
// when an algorithm is selected. Text goes in, rows come out; pure, and ignorant of files and environments.
//
//     regroup-tuning 1
//     # collective  where     ranks  up to  algorithm
//     all_reduce    shared    4      64K    direct_one_phase
//     all_reduce    shared    4      any    direct
//     all_to_all    messages  2-8    any    pairwise
//
// The first line that says something names the format. Each further one is a row: a collective; where the ranks are
// (see Where); how many they are ("4", "2-8", "9-" or "any"); the most bytes of the larger side ("65536", "64K", "1M",
// "2G" by powers of 1024, or "any"); an algorithm of the catalogue. What follows a # is for people. The first row that
// applies, and whose algorithm can serve, is taken.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/problem.h"

namespace regroup::algorithms {

struct Algorithm;
struct Facts;

// What a row asks of the ranks' places.
enum class Where : uint8_t {
  anywhere,
  shared,    // all ranks read each other's memory
  staged,    // likewise, but some of it is not mapped
  by_host,   // several hosts, inside which ranks do
  messages,  // no rank reads another's memory
};
bool holds(Where where, const plan::Problem& problem, const Facts& facts);
std::string_view name(Where where);

constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

struct Ranks {
  Rank least = 1;
  Rank most = std::numeric_limits<Rank>::max();
};

class Tuning {
 public:
  static constexpr std::string_view kFormat = "regroup-tuning 1";
  static constexpr uint64_t kMostBytes = 1 << 20;  // of text
  static constexpr size_t kMostRows = 4096;

  struct Row {
    Where where;
    const Algorithm* algorithm;  // and, by it, the collective
    Ranks ranks;
    uint64_t up_to;     // bytes of the larger side
    std::string place;  // "ORIGIN:LINE", for people
  };

  // nullopt if `text` is no such table; `*problem` then says what is wrong, after "ORIGIN:LINE: ".
  static std::optional<Tuning> parse(std::string_view text, const std::string& origin, std::string* problem);

  const std::vector<Row>& rows() const { return rows_; }
  // Of what the rows ask for and choose, in their order; not of where they were written.
  uint64_t hash() const { return hash_; }

 private:
  std::vector<Row> rows_;
  uint64_t hash_ = 0;
};

}  // namespace regroup::algorithms
