// SPDX-License-Identifier: Apache-2.0
#include "conformance/attempt.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "plan/partition.h"

namespace regroup::conformance {

namespace {

constexpr uint64_t kChunk = 2048;          // elements compared at a time
constexpr uint64_t kSharedWork = 1 << 14;  // all_reduce: contributions from which on each rank checks only its share

}  // namespace

Attempt::Attempt(const Case& c, Rank rank, Arena& ordinary, Arena& allocated)
    : case_(c), rank_(rank), root_(root_of(c)), form_(c.form) {
  in_place_ = c.placement == Placement::in_place || (c.placement == Placement::varied && rank % 2 == 1);
  if (c.form == Form::varied) form_ = rank % 2 == 0 ? Form::counts : Form::list;
  op_ = {c.op, c.op == ReduceOp::Kind::premultiplied_sum ? 0.5 : 1.0};
  rule_ = {c.type, op_, regroup::reduces(c.collective), c.values, 0};
  input_counts_ = input_counts();
  output_counts_ = output_counts();
  // In place: one set of buffers, the other names parts of it.
  const bool parts_in = c.collective == Collective::scatter || c.collective == Collective::reduce_scatter;
  const bool parts_out = c.collective == Collective::gather || c.collective == Collective::all_gather;
  if (in_place_ && (parts_out && !output_counts_.empty())) {
    outputs_ = take(output_counts_, true, ordinary, allocated);
    inputs_ = {outputs_[rank_]};
  } else if (in_place_ && parts_in && !input_counts_.empty()) {
    inputs_ = take(input_counts_, true, ordinary, allocated);
    outputs_ = {inputs_[rank_]};
  } else if (in_place_ && !parts_in && !parts_out) {
    inputs_ = take(input_counts_, true, ordinary, allocated);
    outputs_ = inputs_;
  } else {
    inputs_ = take(input_counts_, false, ordinary, allocated);
    outputs_ = take(output_counts_, true, ordinary, allocated);
  }
}

// Where a root alone gives or gets something, some of the others pass a buffer too, which must stay as it is.
std::vector<uint64_t> Attempt::input_counts() const {
  const bool superfluous = !in_place_ && rank_ % 2 == 1;
  switch (case_.collective) {
    case Collective::barrier:
      return {};
    case Collective::gather:
    case Collective::all_gather:
      return {part_counts(case_)[rank_]};
    case Collective::scatter:
      return at_root() || superfluous ? part_counts(case_) : std::vector<uint64_t>{};
    case Collective::reduce_scatter:
      return part_counts(case_);
    case Collective::all_to_all: {
      std::vector<uint64_t> counts;
      for (Rank peer = 0; peer < case_.ranks; ++peer) counts.push_back(pair_count(case_, rank_, peer));
      return counts;
    }
    default:
      return {vector_count(case_)};
  }
}

std::vector<uint64_t> Attempt::output_counts() const {
  const bool superfluous = !in_place_ && rank_ % 2 == 1;
  switch (case_.collective) {
    case Collective::barrier:
      return {};
    case Collective::reduce:
      return at_root() || superfluous || in_place_ ? std::vector<uint64_t>{vector_count(case_)}
                                                   : std::vector<uint64_t>{};
    case Collective::gather:
      return at_root() || superfluous ? part_counts(case_) : std::vector<uint64_t>{};
    case Collective::all_gather:
      return part_counts(case_);
    case Collective::scatter:
    case Collective::reduce_scatter:
      return {part_counts(case_)[rank_]};
    case Collective::all_to_all: {
      std::vector<uint64_t> counts;
      for (Rank peer = 0; peer < case_.ranks; ++peer) counts.push_back(pair_count(case_, peer, rank_));
      return counts;
    }
    default:
      return {vector_count(case_)};
  }
}

Arena& Attempt::choose(bool outputs, uint64_t part, Arena& ordinary, Arena& allocated) const {
  switch (case_.memory) {
    case Memory::ordinary:
      return ordinary;
    case Memory::allocated:
      return allocated;
    case Memory::by_rank:
      return rank_ % 2 == 0 ? ordinary : allocated;
    default:
      return (part + (outputs ? 1 : 0)) % 2 == 0 ? ordinary : allocated;
  }
}

Attempt::Parts Attempt::take(const std::vector<uint64_t>& counts, bool outputs, Arena& ordinary,
                             Arena& allocated) const {
  const uint64_t width = size_of(case_.type);
  const uint64_t shift = case_.alignment == Alignment::element ? width : 0;
  Parts parts(counts.size());
  if (form_ == Form::list && has_parts(case_.collective) && counts.size() > 1) {
    for (uint64_t part = counts.size(); part-- > 0;) {  // backwards: lists need not lie in order
      // Half of all cases give no address where there is nothing.
      if (counts[part] == 0 && shift > 0) continue;
      parts[part] = {choose(outputs, part, ordinary, allocated).take(counts[part] * width, shift), counts[part]};
    }
    return parts;
  }
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  std::byte* at =
      total == 0 && shift > 0 ? nullptr : choose(outputs, 0, ordinary, allocated).take(total * width, shift);
  for (uint64_t part = 0; part < counts.size(); ++part) {
    parts[part] = {at, counts[part]};
    if (at != nullptr) at += counts[part] * width;
  }
  return parts;
}

void Attempt::prepare(uint64_t seed) {
  rule_.seed = seed;
  rubbish_ = static_cast<std::byte>(0x5a ^ (seed & 0x1f));
  const uint64_t width = size_of(case_.type);
  for (const Part& part : outputs_) {
    if (part.count > 0) std::memset(part.data, static_cast<int>(rubbish_), part.count * width);
  }
  shadow_.clear();
  for (uint64_t part = 0; part < inputs_.size(); ++part) {
    const uint64_t bytes = inputs_[part].count * width;
    if (bytes == 0) continue;
    fill(rule_, rank_, part, 0, inputs_[part].count, inputs_[part].data);
    shadow_.insert(shadow_.end(), inputs_[part].data, inputs_[part].data + bytes);
  }
}

bool Attempt::writes_output() const {
  return !has_root(case_.collective) || case_.collective == Collective::broadcast ||
         case_.collective == Collective::scatter || at_root();
}

void Attempt::expect(uint64_t part, uint64_t first, uint64_t count, void* to) const {
  const Rank left = (rank_ + case_.ranks - 1) % case_.ranks;
  switch (case_.collective) {
    case Collective::broadcast:
      return fill(rule_, root_, 0, first, count, to);
    case Collective::reduce:
    case Collective::all_reduce:
      return expect_reduction(rule_, case_.ranks, 0, first, count, to);
    case Collective::gather:
    case Collective::all_gather:
      return fill(rule_, static_cast<Rank>(part), 0, first, count, to);
    case Collective::scatter:
      return fill(rule_, root_, rank_, first, count, to);
    case Collective::reduce_scatter:
      return expect_reduction(rule_, case_.ranks, rank_, first, count, to);
    case Collective::all_to_all:
      return fill(rule_, static_cast<Rank>(part), rank_, first, count, to);
    default:
      return fill(rule_, left, 0, first, count, to);
  }
}

// Whether the call may (and does) write this part of the input.
bool Attempt::overwritten(uint64_t input_part) const {
  if (!in_place_ || !writes_output()) return false;
  if (case_.collective == Collective::scatter || case_.collective == Collective::reduce_scatter) {
    return input_part == rank_;
  }
  return true;
}

std::string Attempt::check_output(uint64_t part) const {
  const uint64_t width = size_of(case_.type);
  const bool loose = !exactly_determined(rule_, case_.reproducible);
  uint64_t first = 0, end = outputs_[part].count;
  if (case_.collective == Collective::all_reduce && !case_.checks_all && end * case_.ranks > kSharedWork) {
    // The others check the rest: that all have the same bits is compared by fingerprint.
    const plan::Share share = plan::share_of(end, case_.ranks, rank_);
    first = share.offset;
    end = share.offset + share.count;
  }
  alignas(64) std::byte wanted[kChunk * 16];
  for (; first < end; first += kChunk) {
    const uint64_t count = std::min(kChunk, end - first);
    expect(part, first, count, wanted);
    const std::byte* got = outputs_[part].data + first * width;
    const uint64_t wrong = first_difference(rule_, case_.ranks, loose, got, wanted, count);
    if (wrong == kNone) continue;
    return "output part " + std::to_string(part) + " element " + std::to_string(first + wrong) + " of " +
           std::to_string(outputs_[part].count) + " is " + show(case_.type, got + wrong * width) + ", must be " +
           show(case_.type, wanted + wrong * width);
  }
  return {};
}

std::string Attempt::check_inputs() const {
  const uint64_t width = size_of(case_.type);
  uint64_t at = 0;
  for (uint64_t part = 0; part < inputs_.size(); ++part) {
    const uint64_t bytes = inputs_[part].count * width;
    if (bytes > 0 && !overwritten(part) && std::memcmp(inputs_[part].data, shadow_.data() + at, bytes) != 0) {
      return "input part " + std::to_string(part) + " was changed";
    }
    at += bytes;
  }
  return {};
}

std::string Attempt::verify() {
  const uint64_t width = size_of(case_.type);
  fingerprint_ = 0;
  for (uint64_t part = 0; part < outputs_.size(); ++part) {
    if (writes_output()) {
      std::string wrong = check_output(part);
      if (!wrong.empty()) return wrong;
      if (case_.collective == Collective::all_reduce) {
        fingerprint_ = base::hash_bytes(outputs_[part].data, outputs_[part].count * width, rule_.seed) | 1;
      }
    } else if (!in_place_) {
      const uint64_t bytes = outputs_[part].count * width;
      for (uint64_t byte = 0; byte < bytes; ++byte) {
        if (outputs_[part].data[byte] != rubbish_) return "an output was written that is not this rank's to get";
      }
    }
  }
  return check_inputs();
}

}  // namespace regroup::conformance
