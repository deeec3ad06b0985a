// SPDX-License-Identifier: Apache-2.0
#include "conformance/pairwise.h"

#include <algorithm>
#include <set>

namespace regroup::conformance {

namespace {

constexpr int kCandidates = 12;  // rows looked at for each that is taken
constexpr int kAttempts = 1000;  // to find a row with a given pair, before the pair counts as impossible

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (state_ ^ (state_ >> 29)) >> 16;
  }
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[next() % values.size()];
  }

 private:
  uint64_t state_;
};

// Which pairs have occurred, for every two dimensions and values.
class Coverage {
 public:
  Coverage() {
    for (size_t d = 0; d < kDimensions; ++d) {
      base_[d] = width_;
      width_ += value_names(static_cast<Dimension>(d)).size();
    }
    seen_.resize(width_ * width_);
  }
  bool covered(size_t a, uint8_t value_a, size_t b, uint8_t value_b) const {
    return seen_[(base_[a] + value_a) * width_ + base_[b] + value_b];
  }
  int missing(const Row& row) const {
    int count = 0;
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) count += covered(a, row[a], b, row[b]) ? 0 : 1;
    }
    return count;
  }
  void add(const Row& row) {
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) seen_[(base_[a] + row[a]) * width_ + base_[b] + row[b]] = true;
    }
  }

 private:
  size_t base_[kDimensions] = {};
  size_t width_ = 0;
  std::vector<bool> seen_;
};

class Generator {
 public:
  Generator(const Space& space, uint64_t seed) : space_(space), random_(seed) {}

  std::vector<Row> run() {
    cover_calls();
    cover_pairs();
    return std::move(rows_);
  }

 private:
  const std::vector<uint8_t>& allowed(Dimension d) const { return space_.allowed[static_cast<size_t>(d)]; }

  // A random row with the given values kept; the launch follows from wire and ranks.
  Row candidate(const Row& fixed, const std::array<bool, kDimensions>& keep) {
    Row row = fixed;
    for (size_t d = 0; d < kDimensions; ++d) {
      if (!keep[d]) row[d] = random_.one_of(space_.allowed[d]);
    }
    if (space_.one_launch_a_group) {
      const auto at = [&row](Dimension d) -> uint8_t& { return row[static_cast<size_t>(d)]; };
      const std::vector<uint8_t>& launches = allowed(Dimension::launch);
      at(Dimension::launch) = launches[(at(Dimension::wire) + at(Dimension::ranks)) % launches.size()];
    }
    return normalized(row);
  }

  static bool keeps(const Row& row, const Row& fixed, const std::array<bool, kDimensions>& keep) {
    for (size_t d = 0; d < kDimensions; ++d) {
      if (keep[d] && row[d] != fixed[d]) return false;
    }
    return true;
  }

  void take(const Row& row) {
    coverage_.add(row);
    if (taken_.insert(row).second) rows_.push_back(row);
  }

  // Every collective × type × operator × wire, each completed by the candidate with the most new pairs.
  void cover_calls() {
    constexpr Dimension kCall[] = {Dimension::collective, Dimension::type, Dimension::op, Dimension::wire};
    std::array<bool, kDimensions> keep{};
    for (const Dimension d : kCall) keep[static_cast<size_t>(d)] = true;
    Row fixed{};
    const auto at = [&fixed](Dimension d) -> uint8_t& { return fixed[static_cast<size_t>(d)]; };
    for (const uint8_t wire : allowed(Dimension::wire)) {
      for (const uint8_t collective : allowed(Dimension::collective)) {
        for (const uint8_t type : allowed(Dimension::type)) {
          for (const uint8_t op : allowed(Dimension::op)) {
            at(Dimension::wire) = wire;
            at(Dimension::collective) = collective;
            at(Dimension::type) = type;
            at(Dimension::op) = op;
            take_best(fixed, keep);
          }
        }
      }
    }
  }

  void take_best(const Row& fixed, const std::array<bool, kDimensions>& keep) {
    Row best{};
    int most = -1;
    for (int tried = 0; tried < kCandidates; ++tried) {
      const Row row = candidate(fixed, keep);
      if (!keeps(row, fixed, keep)) return;  // no such call: normalizing changed it
      const int missing = coverage_.missing(row);
      if (missing > most) {
        most = missing;
        best = row;
      }
    }
    take(best);
  }

  void cover_pairs() {
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) {
        for (const uint8_t value_a : space_.allowed[a]) {
          for (const uint8_t value_b : space_.allowed[b]) cover_pair(a, value_a, b, value_b);
        }
      }
    }
  }

  void cover_pair(size_t a, uint8_t value_a, size_t b, uint8_t value_b) {
    if (coverage_.covered(a, value_a, b, value_b)) return;
    Row fixed{};
    fixed[a] = value_a;
    fixed[b] = value_b;
    std::array<bool, kDimensions> keep{};
    keep[a] = keep[b] = true;
    for (int tried = 0; tried < kAttempts; ++tried) {
      const Row row = candidate(fixed, keep);
      if (keeps(row, fixed, keep)) return take(row);
    }
  }

  const Space& space_;
  Random random_;
  Coverage coverage_;
  std::set<Row> taken_;
  std::vector<Row> rows_;
};

}  // namespace

Space everything() {
  Space space;
  for (size_t d = 0; d < kDimensions; ++d) {
    std::vector<uint8_t>& values = space.allowed.emplace_back(value_names(static_cast<Dimension>(d)).size());
    for (size_t index = 0; index < values.size(); ++index) values[index] = static_cast<uint8_t>(index);
  }
  return space;
}

std::vector<Row> covering_rows(const Space& space, uint64_t seed) { return Generator(space, seed).run(); }

}  // namespace regroup::conformance
