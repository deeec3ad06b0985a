// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/connection.h"

#include <sys/socket.h>

#include <cstring>
#include <string>

namespace regroup::transport::tcp {

namespace {

// Message::phase.
enum Phase : uint32_t {
  idle,
  eager,       // send: on its way unasked
  announcing,  // send: waits for `ready`
  streaming,   // send: the peer is ready
  waiting,     // receive
  requested,   // receive: `ready` was sent
};

}  // namespace

Connection::Connection(Rank peer, base::Fd stream, uint64_t inbox_bytes, Shared& shared)
    : peer_(peer),
      stream_(std::move(stream)),
      shared_(shared),
      outgoing_(shared.stamp, shared.payloads),
      incoming_(shared.stamp, shared.payloads, inbox_bytes) {}

Connection::~Connection() {
  for (KeyTable<Early>* tables : {early_, readies_}) {
    for (size_t index = 0; index < 2; ++index) {
      tables[index].erase_if([&](Early& early) {
        shared_.early.give(&early);
        return true;
      });
    }
  }
}

// --- posting

void Connection::post_send(Message& message) {
  message.state = Message::State::posted;
  message.moved = 0;
  message.phase = announcing;
  if (lost()) return;
  if (Early* ready = readies_[lane(message.key)].find(message.key)) {
    const uint64_t fingerprint = ready->fingerprint, bytes = ready->bytes;
    readies_[lane(message.key)].erase(*ready);
    release(ready);
    if (!agrees(message, fingerprint, bytes, true)) return;
    message.phase = streaming;
    outgoing_.stream(message);
    touch();
  } else if (outgoing_.offer_eager(message)) {
    message.phase = eager;
    touch();
  } else {
    sends_.insert(message);
    send_control({FrameKind::announce, message.key, message.fingerprint, message.bytes});
  }
}

void Connection::post_receive(Message& message) {
  message.state = Message::State::posted;
  message.moved = 0;
  message.phase = waiting;
  KeyTable<Early>& table = early_[lane(message.key)];
  Early* const early = table.find(message.key);
  if (early == nullptr) {
    receives_.insert(message);
    if (message.bytes > kEagerLimit) request(message);
    return;
  }
  if (early->state == Early::State::arriving) {  // joined when it is whole
    receives_.insert(message);
    return;
  }
  table.erase(*early);
  if (agrees(message, early->fingerprint, early->bytes, false)) {
    if (early->state == Early::State::arrived) {
      deliver(message, 0, early->data.get(), early->bytes);
      received(message);
    } else {
      receives_.insert(message);
      request(message);
    }
  }
  release(early);
}

void Connection::cancel(Message& message) {
  if (message.finished()) return;
  if (message.state == Message::State::posted) {
    if (message.phase == waiting || message.phase == requested) {
      receives_.erase(message);
      incoming_.forget(message);
    } else {
      sends_.erase(message);
      outgoing_.remove(message);
    }
  }
  message.state = Message::State::cancelled;
  message.phase = idle;
}

void Connection::begin() {
  drop_stale(early_[lane({MessageKey::Lane::collective})]);
  drop_stale(readies_[lane({MessageKey::Lane::collective})]);
}

void Connection::drop_stale(KeyTable<Early>& table) {
  table.erase_if([&](Early& early) {
    note_conflict(early.key, early.fingerprint);
    // One that is arriving is dropped when it is whole.
    if (!stale(early.key) || early.state == Early::State::arriving) return false;
    release(&early);
    return true;
  });
}

// --- the parts of the protocol

bool Connection::stale(const MessageKey& key) const {
  return key.lane == MessageKey::Lane::collective && key.sequence < shared_.sequence;
}

bool Connection::current(const MessageKey& key) const {
  return key.lane == MessageKey::Lane::collective && key.sequence == shared_.sequence && shared_.sequence != 0;
}

void Connection::note_conflict(const MessageKey& key, uint64_t fingerprint) {
  if (stale(key)) {
    const Shared::Past& past = shared_.past[key.sequence % std::size(shared_.past)];
    const bool differs = past.sequence == key.sequence && past.fingerprint != fingerprint;
    if (differs && shared_.on_late_conflict) shared_.on_late_conflict(peer_, key.sequence);
    return;
  }
  if (!current(key) || fingerprint == shared_.fingerprint || shared_.conflicting) return;
  shared_.conflicting = true;
  shared_.conflict = {};
  shared_.conflict.first = shared_.rank;
  shared_.conflict.second = peer_;
  shared_.conflict.first_signature = shared_.signature;
  shared_.conflict.second_known = false;
}

// Whether the other side means the same; if not, ends the message here and tells the peer.
bool Connection::agrees(Message& message, uint64_t fingerprint, uint64_t bytes, bool sending) {
  if (message.fingerprint == fingerprint && message.bytes == bytes) return true;
  mismatch(message, fingerprint, bytes);
  const FrameKind kind = sending ? FrameKind::refuse_receive : FrameKind::refuse_send;
  send_control({kind, message.key, message.fingerprint, message.bytes, bytes});
  if (message.fingerprint == fingerprint) {
    note_sizes(message.key, sending ? message.bytes : bytes, sending ? bytes : message.bytes, sending);
  }
  return false;
}

void Connection::mismatch(Message& message, uint64_t fingerprint, uint64_t bytes) {
  message.other_fingerprint = fingerprint;
  message.other_bytes = bytes;
  message.state = Message::State::mismatched;
  message.phase = idle;
}

// Both mean the same operation, but the sizes of a message differ.
void Connection::note_sizes(const MessageKey& key, uint64_t gives, uint64_t takes, bool sending) {
  if (!current(key) || shared_.conflicting) return;
  shared_.conflicting = true;
  shared_.conflict = {};
  shared_.conflict.first = sending ? shared_.rank : peer_;
  shared_.conflict.second = sending ? peer_ : shared_.rank;
  shared_.conflict.first_signature = shared_.conflict.second_signature = shared_.signature;
  shared_.conflict.sizes = true;
  shared_.conflict.gives = gives;
  shared_.conflict.takes = takes;
}

void Connection::touch() {
  if (listed || lost()) return;
  listed = true;
  shared_.sending.push_back(this);
}

void Connection::send_control(const Frame& frame) {
  if (lost()) return;
  outgoing_.control(frame);
  touch();
}

void Connection::request(Message& message) {
  message.phase = requested;
  send_control({FrameKind::ready, message.key, message.fingerprint, message.bytes});
}

// Half the window at a time: few frames, and the peer never runs dry while this rank keeps up.
void Connection::return_credit(uint64_t bytes) {
  freed_ += bytes;
  if (freed_ < kWindow / 2) return;
  held_ -= freed_;
  send_control({FrameKind::credit, {}, 0, freed_});
  freed_ = 0;
}

void Connection::release(Early* early) {
  if (early->state == Early::State::arrived) return_credit(eager_cost(early->bytes));
  shared_.early.give(early);
}

void Connection::received(Message& message) {
  message.moved = message.bytes;
  message.state = Message::State::done;
  message.phase = idle;
  incoming_.forget(message);
}

// --- frames

const char* Connection::accept(const Frame& frame, Destination* destination) {
  if (frame.kind != FrameKind::credit) note_conflict(frame.key, frame.fingerprint);
  switch (frame.kind) {
    case FrameKind::eager:
      return accept_eager(frame, destination);
    case FrameKind::announce:
      return accept_announcement(frame);
    case FrameKind::ready:
      return accept_ready(frame);
    case FrameKind::data:
      accept_data(frame, destination);
      return nullptr;
    case FrameKind::credit:
      return outgoing_.credit(frame.total) ? nullptr : "more credit than was taken";
    case FrameKind::refuse_send:
      refused(sends_, frame, true);
      return nullptr;
    case FrameKind::refuse_receive:
      refused(receives_, frame, false);
      return nullptr;
  }
  return nullptr;
}

const char* Connection::accept_eager(const Frame& frame, Destination* destination) {
  held_ += eager_cost(frame.total);
  if (held_ > kWindow) return "more early bytes than the window allows";
  if (stale(frame.key)) return nullptr;
  if (Message* message = receives_.find(frame.key)) {
    if (agrees(*message, frame.fingerprint, frame.total, false)) {
      destine(*message, destination);
    } else {
      receives_.erase(*message);
    }
    return nullptr;
  }
  KeyTable<Early>& table = early_[lane(frame.key)];
  if (table.find(frame.key) != nullptr) return nullptr;  // sent again after it was cancelled: the first counts
  destination->kind = Destination::Kind::early;
  destination->early = shared_.early.take(Early::State::arriving, frame);
  table.insert(*destination->early);
  return nullptr;
}

const char* Connection::accept_announcement(const Frame& frame) {
  if (stale(frame.key)) return nullptr;
  if (Message* message = receives_.find(frame.key)) {
    if (!agrees(*message, frame.fingerprint, frame.total, false)) {
      receives_.erase(*message);
    } else if (message->phase == waiting) {
      request(*message);
    }
    return nullptr;
  }
  KeyTable<Early>& table = early_[lane(frame.key)];
  if (table.find(frame.key) != nullptr) return nullptr;
  if (table.size() >= kMaxAnnounced) return "more announcements than the limit allows";
  table.insert(*shared_.early.take(Early::State::announced, frame));
  return nullptr;
}

const char* Connection::accept_ready(const Frame& frame) {
  if (stale(frame.key)) return nullptr;
  if (Message* message = sends_.find(frame.key)) {
    if (agrees(*message, frame.fingerprint, frame.total, true)) {
      message->phase = streaming;
      outgoing_.stream(*message);
      touch();
    }
    sends_.erase(*message);
    return nullptr;
  }
  KeyTable<Early>& table = readies_[lane(frame.key)];
  if (table.find(frame.key) != nullptr) return nullptr;
  if (table.size() >= kMaxAnnounced) return "more announcements than the limit allows";
  table.insert(*shared_.early.take(Early::State::ready, frame));
  return nullptr;
}

// Only a receive that asked for it gets it: after a cancelled one, what was under way is discarded.
void Connection::accept_data(const Frame& frame, Destination* destination) {
  Message* const message = receives_.find(frame.key);
  if (message == nullptr || message->phase != requested) return;
  if (message->fingerprint != frame.fingerprint || message->bytes != frame.total || message->moved != frame.offset)
    return;
  destine(*message, destination);
}

void Connection::destine(Message& message, Destination* destination) {
  destination->kind = message.folding == nullptr ? Destination::Kind::place : Destination::Kind::fold;
  destination->message = &message;
}

// The peer does not want this message. A send that went unasked is finished already: the operation hears of it all the
// same.
void Connection::refused(KeyTable<Message>& table, const Frame& frame, bool sending) {
  if (current(frame.key) && frame.fingerprint == shared_.fingerprint) {
    note_sizes(frame.key, sending ? frame.offset : frame.total, sending ? frame.total : frame.offset, sending);
  }
  Message* const message = table.find(frame.key);
  if (message == nullptr || message->moved > 0) return;
  table.erase(*message);
  mismatch(*message, frame.fingerprint, frame.total);
}

void Connection::complete(const Frame& frame, const Destination& destination) {
  Early* const early = destination.early;
  if (early != nullptr) {
    early->state = Early::State::arrived;
    KeyTable<Early>& table = early_[lane(frame.key)];
    Message* const message = receives_.find(frame.key);
    if (message == nullptr && !stale(frame.key)) return;
    table.erase(*early);
    if (message != nullptr) {  // posted while this was arriving
      receives_.erase(*message);
      if (agrees(*message, early->fingerprint, early->bytes, false)) {
        deliver(*message, 0, early->data.get(), early->bytes);
        received(*message);
      }
    }
    release(early);
    return;
  }
  if (frame.kind == FrameKind::eager) return_credit(eager_cost(frame.total));
  if (destination.message == nullptr) return;
  Message& message = *destination.message;
  message.moved += frame.payload;
  if (message.moved < message.bytes) return;
  receives_.erase(message);
  received(message);
}

// --- the stream

void Connection::close() {
  if (stream_.valid()) ::shutdown(stream_.get(), SHUT_RDWR);
  stream_.reset();
}

void Connection::lose(StatusCode code, const std::string& how) {
  loss_ = Status(code, "the stream with rank " + std::to_string(peer_) + how, {peer_}, shared_.stamp.epoch);
  outgoing_.abandon();
}

bool Connection::read() {
  if (lost()) return false;
  const Incoming::Outcome outcome = incoming_.read(fd(), *this);
  if (outcome.broken != nullptr) {
    lose(StatusCode::io_error, std::string(" is broken: ") + outcome.broken);
  } else if (outcome.error != 0) {
    lose(StatusCode::peer_lost, std::string(" failed: ") + std::strerror(outcome.error));
  } else if (outcome.ended) {
    lose(StatusCode::peer_lost, " ended");
  }
  return outcome.moved || lost();
}

bool Connection::flush() {
  if (lost()) return false;
  int error = 0;
  const bool moved = outgoing_.flush(fd(), &error);
  if (error == 0) return moved;
  // What the peer sent before it went still counts: read on to the end, for as long as there is something.
  for (int turn = 0; turn < 1024 && !lost(); ++turn) {
    if (!read()) break;
  }
  if (!lost()) lose(StatusCode::peer_lost, std::string(" failed: ") + std::strerror(error));
  return true;
}

}  // namespace regroup::transport::tcp
