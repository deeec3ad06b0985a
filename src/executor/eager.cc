// SPDX-License-Identifier: Apache-2.0
#include "executor/eager.h"

#include <cstring>

namespace regroup::executor {

using transport::SpaceMemory;

void Eager::start(const EagerCall& call, const transport::Signature& signature, uint64_t fingerprint, uint64_t sequence,
                  transport::Transport& transport) {
  call_ = call;
  fingerprint_ = fingerprint;
  sequence_ = sequence;
  transport_ = &transport;
  next_ = 0;
  conflict_ = false;
  payloads_.resize(call.size);
  // Only the root's input counts in a broadcast or scatter: others' views have no parts.
  transport.begin_eager(sequence, signature, fingerprint, call.binding->memory.spaces[0]);
}

Eager::Outcome Eager::advance() {
  while (next_ < call_.size) {
    uint64_t theirs = 0;
    const std::byte* payload = transport_->eager_payload(next_, sequence_, &theirs);
    if (payload == nullptr) return Outcome::waiting;
    conflict_ |= theirs != fingerprint_;
    payloads_[next_++] = payload;
  }
  // A conflict is told when all have come, so that all see the same lines and come to the same verdict.
  if (conflict_) return Outcome::conflict;
  finish();
  return Outcome::done;
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

// output part `part` ← bytes of a rank's payload
void Eager::put(uint32_t part, Rank from, uint64_t offset, uint64_t bytes) {
  const std::byte* data = static_cast<const std::byte*>(payloads_[from]) + offset;
  call_.binding->memory.spaces[1].pieces(part, 0, bytes, [&data](std::byte* to, uint64_t take) {
    std::memcpy(to, data, take);
    data += take;
  });
}

// output ← fold of all payloads from byte `offset`, in rank order
void Eager::fold(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return;
  for (const void*& payload : payloads_) payload = static_cast<const std::byte*>(payload) + offset;
  const transport::Folding& folding = call_.binding->folding;
  folding.fold(call_.binding->memory.spaces[1].part(0).data, payloads_.data(), call_.size,
               bytes / folding.element_bytes, folding.options);
}

void Eager::finish() {
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
      for (Rank from = 0; from < call_.size; ++from) put(from, from, call_.rank * call_.part_bytes, call_.part_bytes);
      break;
    default:
      break;
  }
}

void Eager::missing(std::vector<Rank>* ranks) const {
  uint64_t theirs = 0;
  for (Rank rank = 0; rank < call_.size; ++rank) {
    if (transport_->eager_payload(rank, sequence_, &theirs) == nullptr) ranks->push_back(rank);
  }
}

}  // namespace regroup::executor
