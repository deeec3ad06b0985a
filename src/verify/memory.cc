// SPDX-License-Identifier: Apache-2.0
#include "verify/memory.h"

#include <algorithm>

namespace regroup::verify {

Memory::Memory(uint64_t end) {
  cells_.push_back(Cell{});
  if (end > 0) cells_.push_back(Cell{end, {}, kNobody, Readers::kNone, false});
}

// The index of the cell that begins at `at`.
size_t Memory::cut(uint64_t at) {
  const auto behind = std::upper_bound(cells_.begin(), cells_.end(), at,
                                       [](uint64_t position, const Cell& cell) { return position < cell.begin; });
  const size_t index = static_cast<size_t>(behind - cells_.begin()) - 1;
  if (cells_[index].begin == at) return index;
  Cell rest = cells_[index];
  rest.value.index += at - rest.begin;
  rest.begin = at;
  cells_.insert(behind, rest);
  return index + 1;
}

std::span<Cell> Memory::cells(const Piece& piece) {
  if (piece.count == 0) return {};
  const size_t first = cut(piece.begin);
  const size_t last = cut(piece.begin + piece.count);
  return {cells_.data() + first, last - first};
}

void Memory::write(const Piece& piece, std::span<const Run> runs, Place writer) {
  if (piece.count == 0) return;
  const size_t first = cut(piece.begin);
  const size_t last = cut(piece.begin + piece.count);
  const size_t old_count = last - first;
  const bool constant = cells_[first].constant;
  if (runs.size() > old_count) {
    cells_.insert(cells_.begin() + static_cast<ptrdiff_t>(last), runs.size() - old_count, Cell{});
  } else if (runs.size() < old_count) {
    cells_.erase(cells_.begin() + static_cast<ptrdiff_t>(first + runs.size()),
                 cells_.begin() + static_cast<ptrdiff_t>(last));
  }
  uint64_t at = piece.begin;
  for (size_t i = 0; i < runs.size(); ++i) {
    cells_[first + i] = Cell{at, runs[i].value, writer, Readers::kNone, constant};
    at += runs[i].count;
  }
}

}  // namespace regroup::verify
