// SPDX-License-Identifier: Apache-2.0
#include "executor/eager.h"

#include <cstring>

#include "base/hash.h"

namespace regroup::executor {

using transport::SpaceMemory;

void Eager::start(const EagerCall& call, const transport::Signature& signature, uint64_t fingerprint, uint64_t sequence,
                  transport::Transport& transport) {
  call_ = call;
  fingerprint_ = fingerprint;
  sequence_ = sequence;
  transport_ = &transport;
  next_ = reader_ = 0;
  conflict_ = planned_ = taken_ = borrows_ = false;
  balance_ = 0;
  inputs_.resize(call.size);
  lent_.resize(call.size);
  if (call.by_pair) {
    lends_ = false;
    const transport::MemberMemory& memory = call.binding->memory;
    transport.begin_pairs(sequence, signature, fingerprint, memory.spaces[0], memory.spaces[1], own_balance());
    return;
  }
  // Only the root's input counts in a broadcast or scatter: others' views have no parts.
  lends_ = transport.begin_eager(sequence, signature, fingerprint, call.binding->memory.spaces[0], call.may_lend);
}

// What this rank gives counts up, what it takes down: over all ranks every pair that is of one mind cancels out. What a
// rank keeps was compared when its arguments were checked.
uint64_t Eager::own_balance() const {
  const auto size_of_pair = [](Rank giver, Rank taker, uint64_t bytes) {
    return base::mix(base::mix(uint64_t{giver} << 32 | taker, 7), bytes);
  };
  const SpaceMemory &input = call_.binding->memory.spaces[0], &output = call_.binding->memory.spaces[1];
  uint64_t balance = 0;
  for (Rank rank = 0; rank < call_.size; ++rank) {
    if (rank == call_.rank) continue;
    balance += size_of_pair(call_.rank, rank, input.bytes_of(rank));
    balance -= size_of_pair(rank, call_.rank, output.bytes_of(rank));
  }
  return balance;
}

// Whether `reader` needs the input of `owner`.
bool Eager::reads(Rank reader, Rank owner) const {
  if (reader == owner) return false;
  switch (call_.collective) {
    case Collective::reduce:
    case Collective::gather:
      return reader == call_.root;
    case Collective::broadcast:
    case Collective::scatter:
      return owner == call_.root;
    default:
      return true;
  }
}

bool Eager::look(Rank rank, transport::EagerInput* input) const {
  if (call_.by_pair) return transport_->pair_input(rank, sequence_, input);
  const bool needed = rank == call_.rank || reads(call_.rank, rank);
  return transport_->eager_input(rank, sequence_, needed, input);
}

Eager::Outcome Eager::advance() {
  while (next_ < call_.size) {
    transport::EagerInput input;
    if (!look(next_, &input)) return Outcome::waiting;
    conflict_ |= input.fingerprint != fingerprint_;
    planned_ |= input.planned;
    balance_ += input.balance;
    lent_[next_] = input.lent;
    borrows_ |= input.lent && reads(call_.rank, next_);
    inputs_[next_++] = input.data;
  }
  // A conflict is told when all have come, so that all see the same lines and come to the same verdict.
  if (conflict_) return Outcome::conflict;
  if (planned_) return Outcome::planned;
  if (balance_ != 0) return Outcome::conflict;
  if (!taken_) {
    if (borrows_) {
      const transport::Reading reading(*transport_);
      if (!inputs_count()) return Outcome::withdrawn;
      take();
      if (!inputs_count()) return Outcome::withdrawn;
    } else {
      take();
    }
    taken_ = true;
    if (borrows_) transport_->notify(plan::kDone);
  }
  if (!lends_) return Outcome::done;
  for (; reader_ < call_.size; ++reader_) {
    if (reads(reader_, call_.rank) && !transport_->notified(reader_, plan::kDone)) return Outcome::waiting;
  }
  return Outcome::done;
}

// Whether nobody has taken back what this rank reads.
bool Eager::inputs_count() {
  lost_rank_ = plan::kNoRank;
  for (Rank rank = 0; rank < call_.size && lost_rank_ == plan::kNoRank; ++rank) {
    if (lent_[rank] && reads(call_.rank, rank) && !transport_->counts(rank)) lost_rank_ = rank;
  }
  return lost_rank_ == plan::kNoRank;
}

uint64_t Eager::bytes_of(Rank part) const {
  return call_.part_elements != nullptr ? call_.part_elements[part] * call_.binding->memory.element_bytes
                                        : call_.part_bytes;
}

uint64_t Eager::offset_of(Rank part) const {
  if (call_.part_elements == nullptr) return part * call_.part_bytes;
  uint64_t elements = 0;
  for (Rank r = 0; r < part; ++r) elements += call_.part_elements[r];
  return elements * call_.binding->memory.element_bytes;
}

// output part `part` ← bytes of a rank's input
void Eager::put(uint32_t part, Rank from, uint64_t offset, uint64_t bytes) {
  const std::byte* data = static_cast<const std::byte*>(inputs_[from]) + offset;
  call_.binding->memory.spaces[1].pieces(part, 0, bytes, [&data](std::byte* to, uint64_t take) {
    std::memcpy(to, data, take);
    data += take;
  });
}

// What a rank gives to itself goes past the transport; in place it is there.
void Eager::take_pair(Rank from) {
  const transport::Segment own = call_.binding->memory.spaces[0].part(call_.rank);
  const transport::Segment to = call_.binding->memory.spaces[1].part(from);
  const void* data = from == call_.rank ? own.data : inputs_[from];
  if (to.bytes > 0 && data != to.data) std::memcpy(to.data, data, to.bytes);
}

// output ← fold of all inputs from byte `offset`, in rank order
void Eager::fold(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return;
  for (const void*& input : inputs_) input = static_cast<const std::byte*>(input) + offset;
  const transport::Folding& folding = call_.binding->folding;
  folding.fold(call_.binding->memory.spaces[1].part(0).data, inputs_.data(), call_.size, bytes / folding.element_bytes,
               folding.options);
}

// What this rank's output needs of all inputs.
void Eager::take() {
  const bool root = call_.rank == call_.root;
  switch (call_.collective) {
    case Collective::broadcast:
      put(0, call_.root, 0, call_.part_bytes);
      break;
    case Collective::all_reduce:
      fold(0, call_.part_bytes);
      break;
    case Collective::reduce:
      if (root) fold(0, call_.part_bytes);
      break;
    case Collective::reduce_scatter:
      fold(offset_of(call_.rank), bytes_of(call_.rank));
      break;
    case Collective::gather:
    case Collective::all_gather:
      if (call_.collective == Collective::gather && !root) break;
      for (Rank from = 0; from < call_.size; ++from) put(from, from, 0, bytes_of(from));
      break;
    case Collective::scatter:
      put(0, call_.root, offset_of(call_.rank), bytes_of(call_.rank));
      break;
    case Collective::all_to_all:
      for (Rank from = 0; from < call_.size; ++from) {
        if (call_.by_pair) {
          take_pair(from);
        } else {
          put(from, from, call_.rank * call_.part_bytes, call_.part_bytes);
        }
      }
      break;
    default:
      break;
  }
}

void Eager::missing(std::vector<Rank>* ranks) const {
  transport::EagerInput input;
  for (Rank rank = 0; rank < call_.size; ++rank) {
    const bool here = call_.by_pair ? transport_->pair_input(rank, sequence_, &input)
                                    : transport_->eager_input(rank, sequence_, /*needed=*/false, &input);
    if (!here || (taken_ && reads(rank, call_.rank) && !transport_->notified(rank, plan::kDone)))
      ranks->push_back(rank);
  }
}

}  // namespace regroup::executor
