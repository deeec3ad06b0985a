// SPDX-License-Identifier: Apache-2.0
#include "verify/layout.h"

#include <algorithm>

namespace regroup::verify {

using plan::Problem;
using plan::Slice;
using plan::Space;

std::vector<uint64_t> part_counts(const Problem& problem, Space space) {
  const bool input = space == Space::input;
  const bool root = problem.rank == problem.root;
  switch (problem.collective) {
    case Collective::broadcast:
      return input && !root ? std::vector<uint64_t>{} : std::vector<uint64_t>{problem.count};
    case Collective::reduce:
      return input || root ? std::vector<uint64_t>{problem.count} : std::vector<uint64_t>{};
    case Collective::all_reduce:
      return {problem.count};
    case Collective::gather:
      if (input) return {problem.count};
      return root ? problem.counts : std::vector<uint64_t>{};
    case Collective::scatter:
      if (!input) return {problem.count};
      return root ? problem.counts : std::vector<uint64_t>{};
    case Collective::all_gather:
      return input ? std::vector<uint64_t>{problem.counts[problem.rank]} : problem.counts;
    case Collective::reduce_scatter:
      return input ? problem.counts : std::vector<uint64_t>{problem.counts[problem.rank]};
    case Collective::all_to_all:
      return input ? problem.counts : problem.receive_counts;
    default:
      return {};
  }
}

SpaceLayout::SpaceLayout(const std::vector<uint64_t>& counts) : bases_(counts.size()) {
  starts_.reserve(counts.size() + 1);
  for (const uint64_t count : counts) starts_.push_back(starts_.back() + count);
}

void SpaceLayout::place_all(uint64_t base) {
  for (uint32_t part = 0; part < parts(); ++part) bases_[part] = base + starts_[part];
}

bool SpaceLayout::contains(const Slice& slice) const {
  if (slice.part >= parts()) return false;
  const uint64_t room = total() - starts_[slice.part];
  return slice.offset <= room && slice.count <= room - slice.offset;
}

void SpaceLayout::resolve(const Slice& slice, std::vector<Piece>& pieces) const {
  uint32_t part = slice.part;
  uint64_t offset = slice.offset;
  uint64_t left = slice.count;
  const size_t first = pieces.size();
  while (left > 0) {
    while (offset >= count(part)) offset -= count(part++);
    const uint64_t taken = std::min(left, count(part) - offset);
    const uint64_t begin = bases_[part] + offset;
    if (pieces.size() > first && pieces.back().begin + pieces.back().count == begin) {
      pieces.back().count += taken;
    } else {
      pieces.push_back({begin, taken});
    }
    left -= taken;
    offset += taken;
  }
}

namespace {

// The parts of `small` (one part) come to lie in part `part` of `large`.
void share(const SpaceLayout& large, uint32_t part, SpaceLayout& small) {
  if (small.parts() == 1 && part < large.parts()) small.place(0, large.base(part));
}

void place_in_place(const Problem& problem, MemberLayout& layout, uint64_t* next) {
  SpaceLayout& input = layout[Space::input];
  SpaceLayout& output = layout[Space::output];
  if (problem.collective == Collective::all_to_all) {
    for (uint32_t part = 0; part < input.parts(); ++part) {
      input.place(part, *next);
      output.place(part, *next);
      *next += std::max(input.count(part), output.count(part));
    }
    return;
  }
  switch (problem.collective) {
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      return share(output, 0, input);
    case Collective::gather:
    case Collective::all_gather:
      return share(output, problem.rank, input);
    case Collective::scatter:
    case Collective::reduce_scatter:
      return share(input, problem.rank, output);
    default:
      return;
  }
}

}  // namespace

MemberLayout lay_out(const Problem& problem, uint64_t scratch_count, bool in_place, uint64_t* next) {
  MemberLayout layout;
  layout[Space::input] = SpaceLayout(part_counts(problem, Space::input));
  layout[Space::output] = SpaceLayout(part_counts(problem, Space::output));
  layout[Space::scratch] = SpaceLayout({scratch_count});
  for (SpaceLayout& space : layout.spaces) {
    space.place_all(*next);
    *next += space.total();
  }
  if (in_place) place_in_place(problem, layout, next);
  return layout;
}

}  // namespace regroup::verify
