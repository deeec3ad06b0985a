// SPDX-License-Identifier: Apache-2.0
// Messages between simulated ranks. A message is announced to its receiver and moves, piece by piece, once a receive
// was posted for it: from the sender's memory, or, if it was buffered, from a copy. Buffers are few: without one a send
// is done only when its receive is.
#include <algorithm>

#include "transport/sim/sim_network.h"
#include "transport/sim/sim_transport.h"

namespace regroup::transport::sim {

void SimTransport::post_send(Message& message) {
  REGROUP_ASSERT(message.state == Message::State::idle);
  message.state = Message::State::posted;
  const auto transfer = std::make_shared<Transfer>();
  transfer->from = rank_;
  transfer->to = message.peer;
  transfer->key = message.key;
  transfer->fingerprint = message.fingerprint;
  transfer->bytes = message.bytes;
  transfer->sender = &message;
  outgoing_.push_back(transfer);
  uint32_t& credit = network_.credit_[size_t{rank_} * network_.size() + message.peer];
  if (credit > 0 && !network_.chance(network_.rendezvous_)) {
    --credit;
    transfer->buffered = true;
    const Event buffered{.kind = Event::Kind::buffered, .rank = rank_, .from = rank_, .transfer = transfer};
    if (network_.chance(128)) {
      handle(buffered);
    } else {
      network_.schedule(buffered, 1 + network_.transfer_time(message.bytes));
    }
    return;
  }
  network_.schedule({.kind = Event::Kind::announced, .rank = message.peer, .from = rank_, .transfer = transfer},
                    network_.delay(rank_, message.peer));
  if (network_.options_.breach == Breach::early_done) message.state = Message::State::done;
}

void SimTransport::post_receive(Message& message) {
  REGROUP_ASSERT(message.state == Message::State::idle);
  message.state = Message::State::posted;
  if (message.folding == nullptr) {
    for (const Segment& segment : message.segments) std::fill_n(segment.data, segment.bytes, kGarbage);
  }
  receives_.push_back(&message);
  network_.schedules_[rank_].news = true;
}

void SimTransport::cancel(Message& message) {
  if (message.state != Message::State::posted) return;
  std::erase(receives_, &message);
  for (const auto& transfer : outgoing_) {
    if (transfer->sender != &message) continue;
    transfer->sender = nullptr;
    transfer->withdrawn = true;
  }
  for (const auto& transfer : incoming_) {
    if (transfer->receiver == &message) transfer->receiver = nullptr;
  }
  message.state = Message::State::cancelled;
}

Rank SimTransport::announced(uint32_t tag, std::span<const uint64_t> sequences) {
  Rank lowest = plan::kNoRank;
  for (const auto& transfer : unmatched_) {
    const MessageKey& key = transfer->key;
    if (key.lane == MessageKey::Lane::pairwise && key.tag == tag && key.sequence == sequences[transfer->from]) {
      lowest = std::min(lowest, transfer->from);
    }
  }
  return lowest;
}

bool SimTransport::progress() {
  std::vector<Event> events;
  events.swap(inbox_);
  for (const Event& event : events) handle(event);
  const size_t before = unmatched_.size();
  match();
  return !events.empty() || unmatched_.size() != before;
}

bool SimTransport::prepare_sleep() { return inbox_.empty(); }

void SimTransport::handle(const Event& event) {
  const std::shared_ptr<Transfer>& transfer = event.transfer;
  switch (event.kind) {
    case Event::Kind::buffered:
      if (transfer->withdrawn) return;
      transfer->data.resize(transfer->bytes);
      gather(*transfer->sender, 0, transfer->data.data(), transfer->bytes);
      transfer->sender->state = Message::State::done;
      transfer->sender = nullptr;
      network_.schedule({.kind = Event::Kind::announced, .rank = transfer->to, .from = rank_, .transfer = transfer},
                        network_.delay(rank_, transfer->to));
      return;
    case Event::Kind::announced:
      unmatched_.push_back(transfer);
      return;
    case Event::Kind::moved:
      return move(transfer);
    case Event::Kind::answered:
      if (transfer->buffered) ++network_.credit_[size_t{rank_} * network_.size() + transfer->to];
      if (transfer->sender != nullptr) {
        transfer->sender->other_fingerprint = transfer->other_fingerprint;
        transfer->sender->other_bytes = transfer->other_bytes;
        transfer->sender->state = transfer->refused ? Message::State::mismatched : Message::State::done;
        transfer->sender = nullptr;
      }
      std::erase(outgoing_, transfer);
      return;
    default:
      return;
  }
}

void SimTransport::match() {
  std::erase_if(unmatched_, [this](const auto& transfer) { return match_one(transfer); });
}

bool SimTransport::match_one(const std::shared_ptr<Transfer>& transfer) {
  const auto wanted = std::find_if(receives_.begin(), receives_.end(), [&](const Message* message) {
    return message->peer == transfer->from && message->key == transfer->key;
  });
  if (wanted == receives_.end()) return false;
  Message& message = **wanted;
  receives_.erase(wanted);
  if (transfer->fingerprint != message.fingerprint || transfer->bytes != message.bytes) {
    message.other_fingerprint = transfer->fingerprint;
    message.other_bytes = transfer->bytes;
    message.state = Message::State::mismatched;
    transfer->refused = true;
    transfer->other_fingerprint = message.fingerprint;
    transfer->other_bytes = message.bytes;
    answer(transfer);
    return true;
  }
  transfer->receiver = &message;
  incoming_.push_back(transfer);
  network_.schedule({.kind = Event::Kind::moved, .rank = rank_, .from = transfer->from, .transfer = transfer},
                    network_.delay(transfer->from, rank_));
  return true;
}

// The next piece of a message.
void SimTransport::move(const std::shared_ptr<Transfer>& transfer) {
  if (transfer->receiver == nullptr) {  // it was cancelled
    std::erase(incoming_, transfer);
    return answer(transfer);
  }
  // Taken back before it was read: it will never be complete.
  if (!transfer->buffered && transfer->withdrawn) return;
  const uint64_t bytes = std::min(network_.chunk_, transfer->bytes - transfer->moved);
  if (bytes > 0) {
    if (transfer->buffered) {
      deliver(*transfer->receiver, transfer->moved, transfer->data.data() + transfer->moved, bytes);
    } else {
      std::vector<std::byte> piece(bytes);
      gather(*transfer->sender, transfer->moved, piece.data(), bytes);
      deliver(*transfer->receiver, transfer->moved, piece.data(), bytes);
    }
    transfer->moved += bytes;
  }
  if (transfer->moved < transfer->bytes) {
    network_.schedule({.kind = Event::Kind::moved, .rank = rank_, .from = transfer->from, .transfer = transfer},
                      1 + network_.transfer_time(bytes));
    return;
  }
  transfer->receiver->state = Message::State::done;
  transfer->receiver = nullptr;
  std::erase(incoming_, transfer);
  answer(transfer);
}

void SimTransport::answer(const std::shared_ptr<Transfer>& transfer) {
  network_.schedule({.kind = Event::Kind::answered, .rank = transfer->from, .from = rank_, .transfer = transfer},
                    network_.delay(rank_, transfer->from));
}

}  // namespace regroup::transport::sim
