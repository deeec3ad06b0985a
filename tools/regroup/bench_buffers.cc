// SPDX-License-Identifier: Apache-2.0
#include "bench_buffers.h"

#include <cstring>
#include <new>

namespace regroup::tool {

namespace {

bool part_each(Collective c, bool input) {
  if (c == Collective::all_to_all) return true;
  return input ? c == Collective::scatter || c == Collective::reduce_scatter
               : c == Collective::gather || c == Collective::all_gather;
}

}  // namespace

uint64_t BenchBuffers::input_parts() const {
  const Collective c = what_->call.collective;
  if (c == Collective::barrier) return 0;
  if (what_->in_place && part_each(c, false)) return what_->call.ranks;  // one buffer, as large as the larger side
  return part_each(c, true) ? what_->call.ranks : 1;
}

uint64_t BenchBuffers::output_parts() const {
  const Collective c = what_->call.collective;
  if (c == Collective::barrier || (!at_root() && (c == Collective::reduce || c == Collective::gather))) return 0;
  return part_each(c, false) ? what_->call.ranks : 1;
}

std::byte* BenchBuffers::take(uint64_t bytes) {
  if (!what_->mapped) return ordinary_.emplace_back(bytes).data();
  Result<Allocation> made = allocate(bytes);
  if (!made.ok()) {
    problem_ = made.status().to_string();
    return nullptr;
  }
  return allocations_.emplace_back(std::move(made).value()).data();
}

bool BenchBuffers::make(const Measurement& what, Rank rank, uint64_t most_bytes) {
  what_ = &what;
  rank_ = rank;
  rule_ = {what.call.type, what.op, reduces(what.call.collective), conformance::Values::exact, 1};
  const uint64_t side = most_bytes + 64;
  try {
    const auto bytes = [&](uint64_t parts) {
      return has_parts(what.call.collective) ? side * parts / what.call.ranks + 64 : side;
    };
    input_ = take(bytes(input_parts()));
    output_ = what.in_place ? input_ : take(bytes(output_parts()));
    pristine_.resize(bytes(input_parts()));
    if (what.check) expected_.resize(bytes(output_parts()));
  } catch (const std::bad_alloc&) {
    problem_ = "not enough memory";
  }
  return problem_.empty();
}

void BenchBuffers::resize(uint64_t bytes) {
  Call call = what_->call;
  call.bytes = bytes;
  part_ = elements_of(call);
  const uint64_t part_bytes = part_ * size_of(call.type);
  rule_.seed = bytes;
  const bool own_part_only = what_->in_place && part_each(call.collective, false) && !part_each(call.collective, true);
  for (uint64_t part = 0; part < input_parts(); ++part) {
    // In place, all_gather reads but the rank's own part; the values of the others must not be right by chance.
    std::byte* at = pristine_.data() + part * part_bytes;
    if (own_part_only && part != rank_)
      std::memset(at, 0x5a, part_bytes);
    else
      conformance::fill(rule_, rank_, own_part_only ? 0 : part, 0, part_, at);
  }
  if (what_->check) expect();
}

void BenchBuffers::expect() {
  const Call& call = what_->call;
  const uint64_t part_bytes = part_ * size_of(call.type);
  for (uint64_t part = 0; part < output_parts(); ++part) {
    std::byte* at = expected_.data() + part * part_bytes;
    const Rank from = static_cast<Rank>(part);
    switch (call.collective) {
      case Collective::broadcast:
        conformance::fill(rule_, call.root, 0, 0, part_, at);
        break;
      case Collective::scatter:
        conformance::fill(rule_, call.root, rank_, 0, part_, at);
        break;
      case Collective::gather:
      case Collective::all_gather:
        conformance::fill(rule_, from, 0, 0, part_, at);
        break;
      case Collective::all_to_all:
        conformance::fill(rule_, from, rank_, 0, part_, at);
        break;
      case Collective::reduce_scatter:
        conformance::expect_reduction(rule_, call.ranks, rank_, 0, part_, at);
        break;
      default:
        conformance::expect_reduction(rule_, call.ranks, 0, 0, part_, at);
        break;
    }
  }
}

void BenchBuffers::write_inputs() {
  const uint64_t part_bytes = part_ * size_of(what_->call.type);
  if (input_parts() > 0) std::memcpy(input_, pristine_.data(), input_parts() * part_bytes);
  // When outputs are checked, none may be left from the call before.
  if (what_->check && !what_->in_place && output_parts() > 0) std::memset(output_, 0x5a, output_parts() * part_bytes);
}

bool BenchBuffers::right() const {
  const uint64_t part_bytes = part_ * size_of(what_->call.type);
  const Collective c = what_->call.collective;
  // In place, the one part that these write is where the input part was.
  const bool inside = what_->in_place && (c == Collective::scatter || c == Collective::reduce_scatter) &&
                      (c != Collective::scatter || at_root());
  const std::byte* got = inside ? output_ + rank_ * part_bytes : output_;
  return conformance::first_difference(rule_, what_->call.ranks, false, got, expected_.data(),
                                       output_parts() * part_) == conformance::kNone;
}

std::vector<Buffer> BenchBuffers::list(std::byte* data, uint64_t parts) const {
  std::vector<Buffer> buffers;
  for (uint64_t part = 0; part < parts; ++part) {
    buffers.emplace_back(data + part * part_ * size_of(what_->call.type), what_->call.type, part_);
  }
  return buffers;
}

// all_to_all exchanges lists of buffers; the others cut one buffer.
Operation BenchBuffers::operation() const {
  const Call& call = what_->call;
  const bool in = what_->in_place;
  CallOptions options;
  options.algorithm = what_->algorithm;
  options.reproducible = call.reproducible;
  const Rank root = call.root;
  const Buffer input = buffer(input_, input_parts()), output = buffer(output_, output_parts());
  switch (call.collective) {
    case Collective::barrier:
      return barrier(options);
    case Collective::broadcast:
      return in ? broadcast(in_place(input), root, options) : broadcast(from(input), into(output), root, options);
    case Collective::all_reduce:
      return in ? all_reduce(in_place(input), what_->op, options)
                : all_reduce(from(input), into(output), what_->op, options);
    case Collective::reduce:
      if (in) return reduce(in_place(input), what_->op, root, options);
      return at_root() ? reduce(from(input), into(output), what_->op, root, options)
                       : reduce(from(input), what_->op, root, options);
    case Collective::gather:
      if (!at_root())
        return gather(from(buffer(in ? input_ + rank_ * part_ * size_of(call.type) : input_, 1)), root, options);
      return in ? gather(in_place(output), root, options) : gather(from(input), into(output), root, options);
    case Collective::all_gather:
      return in ? all_gather(in_place(output), options) : all_gather(from(input), into(output), options);
    case Collective::scatter:
      if (!at_root()) return scatter(into(output), root, options);
      return in ? scatter(in_place(input), root, options) : scatter(from(input), into(output), root, options);
    case Collective::reduce_scatter:
      return in ? reduce_scatter(in_place(input), what_->op, options)
                : reduce_scatter(from(input), into(output), what_->op, options);
    default:
      return in ? all_to_all(in_place(list(output_, output_parts())), options)
                : all_to_all(from(list(input_, input_parts())), into(list(output_, output_parts())), options);
  }
}

}  // namespace regroup::tool
