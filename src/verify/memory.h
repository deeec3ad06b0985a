// SPDX-License-Identifier: Apache-2.0
// One rank's imaginary memory as runs of elements with the same history: what they hold, who wrote them, who has read
// them since.
#pragma once

#include <cstdint>
#include <vector>

#include "verify/expression.h"
#include "verify/layout.h"

namespace regroup::verify {

// Element `index` of what `expression` stands for.
struct Value {
  ExpressionId expression = kUndefined;
  uint64_t index = 0;
};

// `count` elements whose indices rise by one.
struct Run {
  uint64_t count = 0;
  Value value;
};

// Appends a run, joined to the last one where it continues it.
inline void append(std::vector<Run>& runs, const Run& run) {
  if (!runs.empty() && runs.back().value.expression == run.value.expression &&
      (run.value.expression == kUndefined || runs.back().value.index + runs.back().count == run.value.index)) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

// A step, by its place in the order of execution.
using Place = uint32_t;
inline constexpr Place kNobody = UINT32_MAX;

// The readers of a run since it was last written: a list that runs share when they are cut.
class Readers {
 public:
  using List = uint32_t;
  static constexpr List kNone = UINT32_MAX;
  struct Entry {
    Place reader;
    List next;
  };

  List add(List list, Place reader) {
    if (list != kNone && entries_[list].reader == reader) return list;
    entries_.push_back({reader, list});
    return static_cast<List>(entries_.size() - 1);
  }
  const Entry& operator[](List list) const { return entries_[list]; }

 private:
  std::vector<Entry> entries_;
};

struct Cell {
  uint64_t begin = 0;  // it ends where the next one begins
  Value value;
  Place writer = kNobody;
  Readers::List readers = Readers::kNone;
  bool constant = false;  // the caller's input, not shared with the output
};

class Memory {
 public:
  // [0, end), undefined.
  explicit Memory(uint64_t end);

  // The cells that make up the piece exactly; cuts cells at its ends. Valid until the next call. Empty for an empty
  // piece.
  std::span<Cell> cells(const Piece& piece);
  uint64_t count(const Cell& cell) const { return (&cell)[1].begin - cell.begin; }

  // Replaces what the piece holds by `runs`, which together have its length.
  void write(const Piece& piece, std::span<const Run> runs, Place writer);

 private:
  size_t cut(uint64_t at);

  std::vector<Cell> cells_;  // ascending; the last one is empty and marks the end
};

}  // namespace regroup::verify
