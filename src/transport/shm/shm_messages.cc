// SPDX-License-Identifier: Apache-2.0
// Messages over shared memory. The sender announces a message in a slot of its own control segment; the receiver, once
// a receive for it is posted, takes the data: from the slot itself (small), from mapped memory, by a cross-process
// read, or piece by piece from a staging area that the sender fills (two copies, through the cache). The receiver says
// in its own control segment how far it is. So data moves only to posted receives, and nothing needs to be buffered,
// but for one case: where all slots of a sender hold messages that nobody receives yet, and others are waited for, some
// are parked (up to a limit; beyond it the wait ends at its deadline).
#include <algorithm>
#include <cstring>

#include "base/fence.h"
#include "transport/shm/shm_transport.h"

namespace regroup::transport::shm {

namespace {

constexpr uint64_t kParkedBytes = 64 << 20;  // from one peer
constexpr size_t kMostParked = 4096;
constexpr uint64_t kReadBlock = 256 << 10;  // bytes between two looks whether the sender took it back

uint64_t taken_word(uint64_t generation, Taken::State state) { return generation << 2 | state; }

// Whether what was read so far of the message in `slot` is worth nothing.
bool withdrawn(const Slot& slot, uint64_t generation) {
  base::load_fence();
  return slot.withdrawn.load(std::memory_order_acquire) >= generation;
}

}  // namespace

void ShmTransport::post_send(Message& message) {
  REGROUP_ASSERT(message.peer != options_.rank && options_.local[message.peer]);
  message.state = Message::State::posted;
  message.moved = 0;
  Peer& peer = peers_[message.peer];
  if (!peer.waiting.empty() || !announce(message.peer, message)) peer.waiting.push_back(&message);
}

void ShmTransport::post_receive(Message& message) {
  REGROUP_ASSERT(message.peer != options_.rank && options_.local[message.peer]);
  message.state = Message::State::posted;
  message.moved = 0;
  if (claim(message)) return;
  peers_[message.peer].receives.push_back(&message);
  take_announcements(message.peer);
  match(message.peer);
}

// Whether a receive's message was parked: then it gets it, now or when it is there.
bool ShmTransport::claim(Message& message) {
  Peer& peer = peers_[message.peer];
  for (const auto& parked : peer.parked) {
    if (parked->claimed != nullptr || !(parked->message.key == message.key)) continue;
    parked->claimed = &message;
    (void)hand_out(peer);
    return true;
  }
  return false;
}

// Takes the oldest messages out of a peer's slots if they are all in use for messages that nobody receives.
void ShmTransport::park(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.unmatched.size() < kSlots) return;
  const Outgoing& outgoing = *peer.control->outgoing(options_.rank);
  for (uint32_t i = 0; i < kSlots / 4; ++i) {
    const Announcement announcement = peer.unmatched.front();
    const Slot& slot = outgoing.slots[announcement.slot];
    const uint64_t bytes = slot.bytes;
    if (peer.parked.size() >= kMostParked || bytes > kParkedBytes - peer.parked_bytes) return;
    auto parked = std::make_unique<Parked>();
    parked->data.reset(new (std::nothrow) std::byte[std::max<uint64_t>(bytes, 1)]);
    if (parked->data == nullptr) return;
    Message& message = parked->message;
    message.peer = rank;
    message.key = slot.key;
    message.fingerprint = slot.fingerprint;
    message.bytes = bytes;
    message.single = {parked->data.get(), bytes};
    message.segments = {&message.single, bytes > 0 ? 1u : 0u};
    message.state = Message::State::posted;
    receiving_.push_back({&message, rank, announcement.slot, announcement.generation});
    peer.parked_bytes += bytes;
    peer.parked.push_back(std::move(parked));
    peer.unmatched.erase(peer.unmatched.begin());
  }
}

// Gives parked messages that are whole to those who claimed them, and drops those of operations that are over.
bool ShmTransport::hand_out(Peer& peer) {
  return 0 < std::erase_if(peer.parked, [&](const std::unique_ptr<Parked>& parked) {
           Message& from = parked->message;
           Message* to = parked->claimed;
           const bool over = from.key.lane == MessageKey::Lane::collective && from.key.sequence < sequence_;
           if (!over && (to == nullptr || from.state != Message::State::done)) return false;
           if (over) {
             cancel(from);
           } else if (to->bytes != from.bytes || to->fingerprint != from.fingerprint) {
             to->other_bytes = from.bytes;
             to->other_fingerprint = from.fingerprint;
             to->state = Message::State::mismatched;
           } else {
             deliver(*to, 0, parked->data.get(), from.bytes);
             to->moved = from.bytes;
             to->state = Message::State::done;
           }
           peer.parked_bytes -= from.bytes;
           return true;
         });
}

// Puts the message into a free slot; false where there is none.
bool ShmTransport::announce(Rank rank, Message& message) {
  Peer& peer = peers_[rank];
  if (peer.slots_in_use == kSlots) return false;
  uint32_t index = static_cast<uint32_t>(peer.announced_count % kSlots);
  while (peer.slots[index].used) index = (index + 1) % kSlots;
  Outgoing& outgoing = *own().outgoing(rank);
  Slot& slot = outgoing.slots[index];
  slot.key = message.key;
  slot.fingerprint = message.fingerprint;
  slot.bytes = message.bytes;
  slot.chunks.store(0, std::memory_order_relaxed);
  slot.segment = 0;
  slot.base = 0;
  if (message.bytes <= kSlotPayload) {
    slot.kind = Slot::in_slot;
    gather(message, 0, slot.payload, message.bytes);
  } else if (message.segments.size() == 1) {
    const auto place = SegmentRegister::of_process().find(message.segments[0].data, message.bytes);
    slot.kind = place.id != 0 ? Slot::mapped : cross_process_reads_ || peer.in_process ? Slot::ordinary : Slot::staged;
    slot.segment = place.id;
    slot.base = place.id != 0 ? place.offset : reinterpret_cast<uint64_t>(message.segments[0].data);
  } else {
    slot.kind = Slot::staged;
  }
  SlotUse& use = peer.slots[index];
  use = {true, &message, use.generation + 1};
  ++peer.slots_in_use;
  message.slot = index;
  if (slot.kind == Slot::in_slot) {
    use.message = nullptr;
    message.state = Message::State::done;
  }
  outgoing.order[peer.announced_count % kSlots] = index;
  slot.generation.store(use.generation, std::memory_order_release);
  outgoing.announced.store(++peer.announced_count, std::memory_order_release);
  ring_sleepers();
  return true;
}

// The receiver has said how the message in this slot ended.
void ShmTransport::answered(Peer& peer, uint32_t slot, Message::State state) {
  SlotUse& use = peer.slots[slot];
  if (use.message != nullptr) use.message->state = state;
  if (peer.staging_by == use.message) peer.staging_by = nullptr;
  use.used = false;
  use.message = nullptr;
  --peer.slots_in_use;
}

bool ShmTransport::send_progress(Rank rank) {
  Peer& peer = peers_[rank];
  bool moved = false;
  if (peer.slots_in_use > 0) {
    const shm::Incoming& answers = *peer.control->incoming(options_.size, options_.rank);
    for (uint32_t index = 0; index < kSlots; ++index) {
      const SlotUse& use = peer.slots[index];
      if (!use.used) continue;
      const Taken& taken = answers.taken[index];
      const uint64_t word = taken.state.load(std::memory_order_acquire);
      if (word >> 2 != use.generation) continue;
      switch (static_cast<Taken::State>(word & 3)) {
        case Taken::consumed:
          answered(peer, index, Message::State::done);
          moved = true;
          break;
        case Taken::refused:
          if (use.message != nullptr) {
            use.message->other_fingerprint = taken.fingerprint.load(std::memory_order_relaxed);
            use.message->other_bytes = taken.bytes.load(std::memory_order_relaxed);
          }
          answered(peer, index, Message::State::mismatched);
          moved = true;
          break;
        case Taken::accepted:
          if (use.message != nullptr) moved |= stage(rank, *use.message);
          break;
        case Taken::unseen:
          break;
      }
    }
  }
  while (!peer.waiting.empty() && announce(rank, *peer.waiting.front())) {
    peer.waiting.pop_front();
    moved = true;
  }
  return moved;
}

std::byte* ShmTransport::staging_area(Rank rank) {
  if (staging_ == nullptr) {
    auto made = OwnedSegment::create(uint64_t{options_.size} * kChunks * kChunk);
    if (!made.ok()) return nullptr;  // tried again at the next turn; the deadline ends it
    staging_ = std::move(made).value();
  }
  return staging_->data() + uint64_t{rank} * kChunks * kChunk;
}

// Fills free pieces of the staging area, which serves one message to a peer at a time.
bool ShmTransport::stage(Rank rank, Message& message) {
  Peer& peer = peers_[rank];
  Slot& slot = own().outgoing(rank)->slots[message.slot];
  if (slot.kind != Slot::staged) return false;
  if (peer.staging_by == nullptr) peer.staging_by = &message;
  std::byte* area = staging_area(rank);
  if (peer.staging_by != &message || area == nullptr) return false;
  const Taken& taken = peer.control->incoming(options_.size, options_.rank)->taken[message.slot];
  // The receiver resets its count before it accepts.
  const uint64_t consumed = taken.chunks.load(std::memory_order_acquire);
  uint64_t put = slot.chunks.load(std::memory_order_relaxed);
  bool moved = false;
  while (message.moved < message.bytes && put < consumed + kChunks) {
    const uint64_t take = std::min(kChunk, message.bytes - message.moved);
    gather(message, message.moved, area + put % kChunks * kChunk, take);
    message.moved += take;
    if (put == 0) {
      // Told with the first piece: before, the segment need not exist; from then on the receiver reads them.
      slot.segment = staging_->id();
      slot.base = uint64_t{rank} * kChunks * kChunk;
    }
    slot.chunks.store(++put, std::memory_order_release);
    moved = true;
  }
  if (moved) ring_sleepers();
  return moved;
}

bool ShmTransport::take_announcements(Rank rank) {
  Peer& peer = peers_[rank];
  const Outgoing& outgoing = *peer.control->outgoing(options_.rank);
  const uint64_t announced = outgoing.announced.load(std::memory_order_acquire);
  if (announced == peer.seen) return false;
  for (; peer.seen < announced; ++peer.seen) {
    const uint32_t index = outgoing.order[peer.seen % kSlots] % kSlots;
    const uint64_t generation = outgoing.slots[index].generation.load(std::memory_order_acquire);
    peer.unmatched.push_back({rank, index, generation});
  }
  return true;
}

// Pairs announcements with posted receives, and drops announcements of operations that are over.
bool ShmTransport::match(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.unmatched.empty()) return false;
  const Outgoing& outgoing = *peer.control->outgoing(options_.rank);
  shm::Incoming& answers = *own().incoming(options_.size, rank);
  bool moved = false;
  std::erase_if(peer.unmatched, [&](const Announcement& announcement) {
    const Slot& slot = outgoing.slots[announcement.slot];
    Taken& taken = answers.taken[announcement.slot];
    if (slot.withdrawn.load(std::memory_order_acquire) >= announcement.generation) {
      taken.state.store(taken_word(announcement.generation, Taken::consumed), std::memory_order_release);
      ring_sleepers();
      return true;
    }
    if (slot.key.lane == MessageKey::Lane::collective && slot.key.sequence < sequence_) {
      taken.state.store(taken_word(announcement.generation, Taken::consumed), std::memory_order_release);
      ring_sleepers();
      return true;
    }
    const auto wanted = std::find_if(peer.receives.begin(), peer.receives.end(),
                                     [&](const Message* message) { return message->key == slot.key; });
    if (wanted == peer.receives.end()) return false;
    Message* message = *wanted;
    peer.receives.erase(wanted);
    moved = true;
    if (slot.fingerprint != message->fingerprint || slot.bytes != message->bytes) {
      message->other_fingerprint = slot.fingerprint;
      message->other_bytes = slot.bytes;
      message->state = Message::State::mismatched;
      taken.fingerprint.store(message->fingerprint, std::memory_order_relaxed);
      taken.bytes.store(message->bytes, std::memory_order_relaxed);
      taken.state.store(taken_word(announcement.generation, Taken::refused), std::memory_order_release);
      ring_sleepers();
      return true;
    }
    message->phase = 0;
    receiving_.push_back({message, rank, announcement.slot, announcement.generation});
    return true;
  });
  if (!peer.receives.empty()) park(rank);
  return moved;
}

bool ShmTransport::receive_staged(Incoming& incoming, const Slot& slot, Taken& taken) {
  Message& message = *incoming.message;
  if (message.phase == 0) {
    taken.chunks.store(0, std::memory_order_relaxed);
    taken.state.store(taken_word(incoming.generation, Taken::accepted), std::memory_order_release);
    message.phase = 1;
    ring_sleepers();
    return true;
  }
  bool moved = false;
  uint64_t consumed = taken.chunks.load(std::memory_order_relaxed);
  while (slot.chunks.load(std::memory_order_acquire) > consumed) {
    const Reading reading(*this);
    if (withdrawn(slot, incoming.generation)) return moved;
    const uint64_t take = std::min(kChunk, message.bytes - message.moved);
    const std::byte* data = mapped(incoming.peer, slot.segment, slot.base + consumed % kChunks * kChunk, take);
    if (data == nullptr) return moved;  // its descriptor is on the way
    deliver(message, message.moved, data, take);
    if (withdrawn(slot, incoming.generation)) return moved;  // the piece may be another message's already
    message.moved += take;
    taken.chunks.store(++consumed, std::memory_order_release);
    moved = true;
    ring_sleepers();
  }
  return moved;
}

// Takes the whole message from memory that can be read at once. False: not yet, or the peer refuses.
bool ShmTransport::read_message(Incoming& incoming, const Slot& slot) {
  Message& message = *incoming.message;
  if (slot.kind == Slot::in_slot) {
    deliver(message, 0, slot.payload, message.bytes);
    message.moved = message.bytes;
    return true;
  }
  while (message.moved < message.bytes) {
    const Reading reading(*this);
    if (withdrawn(slot, incoming.generation)) return false;
    const std::byte* data = nullptr;
    if (slot.kind == Slot::mapped) {
      data = mapped(incoming.peer, slot.segment, slot.base, message.bytes);
      if (data == nullptr) return false;
    } else if (peers_[incoming.peer].in_process) {
      data = reinterpret_cast<const std::byte*>(slot.base);
    }
    const uint64_t take = std::min(kReadBlock, message.bytes - message.moved);
    if (data != nullptr) {
      deliver(message, message.moved, data + message.moved, take);
    } else if (message.folding == nullptr && message.segments.size() == 1) {
      if (!read(incoming.peer, slot.base + message.moved, message.segments[0].data + message.moved, take)) return false;
    } else {
      bounce_.resize(kReadBlock);
      if (!read(incoming.peer, slot.base + message.moved, bounce_.data(), take)) return false;
      deliver(message, message.moved, bounce_.data(), take);
    }
    if (withdrawn(slot, incoming.generation)) return false;
    message.moved += take;
  }
  return true;
}

bool ShmTransport::receive_progress(Incoming& incoming) {
  Message& message = *incoming.message;
  const Slot& slot = peers_[incoming.peer].control->outgoing(options_.rank)->slots[incoming.slot];
  Taken& taken = own().incoming(options_.size, incoming.peer)->taken[incoming.slot];
  if (slot.withdrawn.load(std::memory_order_acquire) >= incoming.generation)
    return false;  // its owner's failure is on the way
  bool moved = false;
  if (slot.kind == Slot::staged) {
    moved = receive_staged(incoming, slot, taken);
    if (message.moved < message.bytes) return moved;
  } else if (!read_message(incoming, slot)) {
    return false;
  }
  message.state = Message::State::done;
  taken.state.store(taken_word(incoming.generation, Taken::consumed), std::memory_order_release);
  ring_sleepers();
  return true;
}

bool ShmTransport::progress() {
  take_offers();
  bool moved = false;
  for (const Rank rank : local_) {
    Peer& peer = peers_[rank];
    if (peer.slots_in_use > 0 || !peer.waiting.empty()) moved |= send_progress(rank);
    if (take_announcements(rank) || !peer.unmatched.empty()) moved |= match(rank);
  }
  for (size_t i = 0; i < receiving_.size();) {
    moved |= receive_progress(receiving_[i]);
    if (receiving_[i].message->finished()) {
      receiving_[i] = receiving_.back();
      receiving_.pop_back();
    } else {
      ++i;
    }
  }
  for (const Rank rank : local_) {
    if (!peers_[rank].parked.empty()) moved |= hand_out(peers_[rank]);
  }
  return moved;
}

void ShmTransport::cancel(Message& message) {
  if (message.state != Message::State::posted) return;
  Peer& peer = peers_[message.peer];
  std::erase(peer.receives, &message);
  for (const auto& parked : peer.parked) {
    // A null one: hand_out is putting the rest together.
    if (parked != nullptr && parked->claimed == &message) parked->claimed = nullptr;
  }
  std::erase(peer.waiting, &message);
  for (uint32_t index = 0; index < kSlots; ++index) {
    SlotUse& use = peer.slots[index];
    if (use.message != &message) continue;
    own().outgoing(message.peer)->slots[index].withdrawn.store(use.generation, std::memory_order_seq_cst);
    base::full_fence();
    await_readers();
    if (peer.staging_by == &message) peer.staging_by = nullptr;
    use.message = nullptr;
    ring_sleepers();
  }
  std::erase_if(receiving_, [&](const Incoming& incoming) {
    if (incoming.message != &message) return false;
    own()
        .incoming(options_.size, incoming.peer)
        ->taken[incoming.slot]
        .state.store(taken_word(incoming.generation, Taken::consumed), std::memory_order_release);
    return true;
  });
  message.state = Message::State::cancelled;
}

Rank ShmTransport::announced(uint32_t tag, std::span<const uint64_t> sequences) {
  for (const Rank rank : local_) {
    take_announcements(rank);
    const Outgoing& outgoing = *peers_[rank].control->outgoing(options_.rank);
    for (const Announcement& announcement : peers_[rank].unmatched) {
      const MessageKey& key = outgoing.slots[announcement.slot].key;
      if (key.lane == MessageKey::Lane::pairwise && key.tag == tag && key.sequence == sequences[rank]) return rank;
    }
    for (const auto& parked : peers_[rank].parked) {
      const MessageKey& key = parked->message.key;
      if (parked->claimed == nullptr && key.lane == MessageKey::Lane::pairwise && key.tag == tag &&
          key.sequence == sequences[rank]) {
        return rank;
      }
    }
    park(rank);
  }
  return plan::kNoRank;
}

}  // namespace regroup::transport::shm
