// SPDX-License-Identifier: Apache-2.0
#include "conformance/member.h"

#include <cstring>

#include "base/hash.h"
#include "conformance/attempt.h"

namespace regroup::conformance {

namespace {

// A rank's buffers of one case, with room for sizes that are uneven (at most double) and both sides.
constexpr uint64_t kArenaBytes = 1500 << 10;

Allocation allocate_or_throw(uint64_t bytes) { return allocate(bytes).value_or_throw(); }

}  // namespace

// Small operations that run beside the one under test.
struct Member::Companions {
  explicit Companions(const ProcessGroup& group) : rank(group.rank()), size(group.size()) {}

  Rank rank, size;
  int64_t sums[3] = {};
  uint8_t letters[7] = {};

  void prepare() {
    for (int64_t i = 0; i < 3; ++i) sums[i] = rank + 10 * i;
    for (uint8_t& letter : letters) letter = static_cast<uint8_t>(rank + 1);
  }
  Operation sum() { return all_reduce(in_place(sums)); }
  Operation letter() { return broadcast(in_place(letters), size - 1); }
  bool right() const {
    const int64_t ranks = size;
    for (int64_t i = 0; i < 3; ++i) {
      if (sums[i] != ranks * (ranks - 1) / 2 + ranks * 10 * i) return false;
    }
    for (const uint8_t letter : letters) {
      if (letter != static_cast<uint8_t>(size)) return false;
    }
    return true;
  }
};

Member::Member(ProcessGroup& group, uint64_t seed)
    : group_(group),
      seed_(seed),
      ordinary_bytes_(kArenaBytes),
      allocation_(allocate_or_throw(kArenaBytes)),
      ordinary_(ordinary_bytes_.data(), kArenaBytes),
      allocated_(allocation_.data(), kArenaBytes) {}

uint64_t Member::seed_of(const Row& row, uint64_t round) const {
  return base::hash_bytes(row.data(), row.size(), seed_ * 31 + round);
}

Outcome Member::run_case(const Row& row) {
  const Case c = case_of(row);
  ordinary_.reset();
  allocated_.reset();
  if (c.collective == Collective::send) return run_exchange(c);
  if (c.collective == Collective::receive_any) return run_fan_in(c);
  return run_collective(c);
}

// What a call's status means for the case; `passed` says that the results are to be looked at.
Outcome Member::judge(const Case& c, const Status& status, const char* call) const {
  const bool senseless = regroup::reduces(c.collective) && !meaningful(c.type, c.op);
  if (senseless) {
    const bool refused = status.code() == StatusCode::unsupported || status.code() == StatusCode::invalid_argument;
    if (refused) return {Verdict::unsupported, {}, 0, false};
    return Outcome::failed(std::string(call) + " should refuse this operator for this type, but gave " +
                           status.to_string());
  }
  if (status.ok()) return {};
  // A named algorithm may need what this machine or this kind of memory does not give.
  if (status.code() == StatusCode::unsupported && c.algorithm != 0) return {Verdict::unsupported, {}, 0, false};
  return Outcome::lost(std::string(call) + " gave " + status.to_string());
}

// Runs the operation in the way that the case says (but for `prepared`).
Status Member::call(const Case& c, const Operation& operation, Companions& companions) {
  companions.prepare();
  if (c.call == Call::run) return group_.run(operation);
  if (c.call == Call::start) return group_.start(operation).wait();
  if (c.call == Call::batch) {
    CallOptions options;
    options.reproducible = c.reproducible;
    return group_.run(batch({companions.sum(), operation, companions.letter()}, options));
  }
  Work before = group_.start(companions.sum());
  Work work = group_.start(operation);
  Work after = group_.start(companions.letter());
  const Status last = after.wait();
  const Status status = work.wait();
  const Status first = before.wait();
  if (!status.ok()) return status;
  return first.ok() ? last : first;
}

Outcome Member::run_collective(const Case& c) {
  Attempt attempt(c, group_.rank(), ordinary_, allocated_);
  CallOptions options;
  options.reproducible = c.reproducible;
  options.algorithm = algorithm_of(c);
  const Operation operation = attempt.operation(options);
  const bool companions_run = c.call == Call::batch || c.call == Call::overlapped;
  Companions companions(group_);
  std::optional<Prepared> prepared;
  if (c.call == Call::prepared) {
    Result<Prepared> made = group_.prepare(operation);
    const Outcome outcome = judge(c, made.status(), "prepare");
    if (outcome.verdict != Verdict::passed) return outcome;
    prepared = std::move(made).value();
  }
  Outcome outcome;
  // A prepared operation runs twice, on different values.
  for (uint64_t round = 0; round < (prepared ? 2 : 1); ++round) {
    attempt.prepare(seed_of(c.row, round));
    Status status;
    if (!prepared)
      status = call(c, operation, companions);
    else
      status = round == 0 ? prepared->run() : prepared->start().wait();
    outcome = judge(c, status, "the call");
    if (outcome.verdict == Verdict::passed) {
      const std::string wrong = attempt.verify();
      if (!wrong.empty()) return Outcome::failed(wrong);
      if (companions_run && !companions.right()) return Outcome::failed("an operation beside it has a wrong result");
    }
    if (!ordinary_.intact() || !allocated_.intact()) return Outcome::failed("memory around a buffer was written");
  }
  outcome.fingerprint = attempt.fingerprint();
  return outcome;
}

// Every rank sends to its right neighbour (itself, if alone) and receives from its left one: two messages with
// different tags, received in the other order.
Outcome Member::run_exchange(const Case& c) {
  const Rank rank = group_.rank(), size = group_.size();
  const Rank right = (rank + 1) % size, left = (rank + size - 1) % size;
  ValueRule rule{c.type, ReduceOp::sum, false, Values::exact, seed_of(c.row, 0)};
  const uint64_t width = size_of(c.type), count = vector_count(c);
  const uint64_t shift = c.alignment == Alignment::element ? width : 0;
  Arena& sending =
      c.memory == Memory::ordinary || (c.memory == Memory::by_rank && rank % 2 == 0) ? ordinary_ : allocated_;
  Arena& receiving = c.memory == Memory::allocated ? allocated_ : ordinary_;
  const uint64_t counts[2] = {count, count / 2};
  std::byte *out[2], *in[2];
  std::vector<std::byte> wanted[2];
  for (int k = 0; k < 2; ++k) {
    out[k] = sending.take(counts[k] * width, shift);
    in[k] = receiving.take(counts[k] * width, shift);
    wanted[k].resize(counts[k] * width);
    fill(rule, rank, k, 0, counts[k], out[k]);
    fill(rule, left, k, 0, counts[k], wanted[k].data());
    if (!wanted[k].empty()) std::memset(in[k], 0x3c, wanted[k].size());
  }
  const auto sends = [&](uint32_t k) { return send(from(ConstBuffer(out[k], c.type, counts[k])), right, k + 1); };
  const auto receives = [&](uint32_t k) { return receive(into(Buffer(in[k], c.type, counts[k])), left, k + 1); };

  Status status;
  if (c.call == Call::run || c.call == Call::batch) {
    status = group_.run(batch({sends(0), receives(1), sends(1), receives(0)}));
  } else {
    std::vector<Work> works;
    const Operation operations[4] = {sends(0), receives(1), sends(1), receives(0)};
    for (const Operation& operation : operations) {
      if (c.call != Call::prepared) {
        works.push_back(group_.start(operation));
        continue;
      }
      Result<Prepared> prepared = group_.prepare(operation);
      if (!prepared.ok()) return judge(c, prepared.status(), "prepare");
      works.push_back(prepared->start());
    }
    for (Work& work : works) {
      const Status one = work.wait();
      if (status.ok()) status = one;
    }
  }
  const Outcome outcome = judge(c, status, "the exchange");
  if (outcome.verdict != Verdict::passed) return outcome;
  for (uint32_t k = 0; k < 2; ++k) {
    const uint64_t wrong = first_difference(rule, size, false, in[k], wanted[k].data(), counts[k]);
    if (wrong != kNone)
      return Outcome::failed("element " + std::to_string(wrong) + " of message " + std::to_string(k) + " is " +
                             show(c.type, in[k] + wrong * width) + ", must be " +
                             show(c.type, wanted[k].data() + wrong * width));
  }
  if (!ordinary_.intact() || !allocated_.intact()) return Outcome::failed("memory around a buffer was written");
  return outcome;
}

// Every rank, rank 0 too, sends one message to rank 0, which takes them as they come.
Outcome Member::run_fan_in(const Case& c) {
  const Rank rank = group_.rank(), size = group_.size();
  ValueRule rule{c.type, ReduceOp::sum, false, Values::exact, seed_of(c.row, 0)};
  const uint64_t width = size_of(c.type), count = equal_part(c);
  const uint64_t shift = c.alignment == Alignment::element ? width : 0;
  Arena& arena =
      c.memory == Memory::ordinary || (c.memory == Memory::by_rank && rank % 2 == 0) ? ordinary_ : allocated_;
  std::byte* out = arena.take(count * width, shift);
  fill(rule, rank, 0, 0, count, out);
  Work sending = group_.start(send(from(ConstBuffer(out, c.type, count)), 0, 9));
  std::vector<bool> seen(size);
  std::vector<std::byte> wanted(count * width);
  for (Rank message = 0; rank == 0 && message < size; ++message) {
    std::byte* in = arena.take(count * width, shift);
    Rank source = size;
    const Operation operation = receive_any(into(Buffer(in, c.type, count)), &source, 9);
    const Status status = c.call == Call::run ? group_.run(operation) : group_.start(operation).wait();
    if (!status.ok()) return judge(c, status, "receive_any");
    if (source >= size || seen[source]) return Outcome::failed("receive_any named rank " + std::to_string(source));
    seen[source] = true;
    fill(rule, source, 0, 0, count, wanted.data());
    const uint64_t wrong = first_difference(rule, size, false, in, wanted.data(), count);
    if (wrong != kNone)
      return Outcome::failed("element " + std::to_string(wrong) + " from rank " + std::to_string(source));
  }
  const Outcome outcome = judge(c, sending.wait(), "send");
  // Nobody goes on to messages of the next case, which would be taken for some of this one.
  const Status met = group_.run(barrier());
  if (!met.ok()) return judge(c, met, "the barrier after it");
  if (!ordinary_.intact() || !allocated_.intact()) return Outcome::failed("memory around a buffer was written");
  return outcome;
}

// A small collective that must work whatever went before, at the latest at the given attempt.
Outcome Member::probe(int attempts) {
  const int64_t ranks = group_.size();
  Status status;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    int64_t value[2] = {group_.rank(), 7};
    status = group_.run(all_reduce(in_place(value)));
    if (status.code() == StatusCode::mismatch) continue;
    if (!status.ok()) break;
    if (value[0] == ranks * (ranks - 1) / 2 && value[1] == 7 * ranks) return {};
    return Outcome::lost("the collective after it has a wrong result");
  }
  return Outcome::lost("the collective after it gave " + status.to_string());
}

}  // namespace regroup::conformance
