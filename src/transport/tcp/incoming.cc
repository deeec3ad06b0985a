// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/incoming.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace regroup::transport::tcp {

namespace {
constexpr int kMaxVectors = 64;
constexpr int kMaxReads = 8;  // a call: the other streams want their turn
}  // namespace

Incoming::Incoming(const Stamp& stamp, PayloadPool& pool, uint64_t inbox_bytes)
    : stamp_(stamp), pool_(pool), inbox_bytes_(inbox_bytes), inbox_(allocate_aligned(inbox_bytes)) {}

Incoming::Outcome Incoming::read(int fd, FrameSink& sink) {
  Outcome outcome;
  for (int turn = 0; turn < kMaxReads; ++turn) {
    iovec vectors[kMaxVectors + 1];
    int count = 0;
    bool whole = true;
    const uint64_t expected = in_payload_ ? describe(vectors, &count, &whole) : 0;
    uint64_t room = 0;
    if (whole) {
      // Amid a large message the next header is enough: its payload then goes straight to its place.
      const bool more_follows = in_payload_ && expected > 0 && frame_.kind == FrameKind::data && !frame_.last();
      room = more_follows ? kHeaderBytes : inbox_bytes_ - end_;
      vectors[count++] = {inbox_.get() + end_, room};
    }
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      outcome.ended = got == 0;
      if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) outcome.error = errno;
      break;
    }
    outcome.moved = true;
    const uint64_t bytes = static_cast<uint64_t>(got);
    direct(std::min(bytes, expected));
    end_ += bytes - std::min(bytes, expected);
    outcome.broken = consume(sink);
    if (outcome.broken != nullptr || bytes < expected + room) break;
  }
  return outcome;
}

// The places of the current payload's rest; `*whole`: all of it is described.
uint64_t Incoming::describe(iovec* vectors, int* count, bool* whole) {
  const uint64_t rest = frame_.payload - arrived_;
  *whole = true;
  switch (destination_.kind) {
    case Destination::Kind::skip:
      return 0;  // by way of the inbox
    case Destination::Kind::place: {
      const uint64_t described = cursor_.describe(rest, vectors, kMaxVectors, count);
      *whole = described == rest;
      return described;
    }
    case Destination::Kind::fold:
      vectors[(*count)++] = {fold_.get() + arrived_, rest};
      return rest;
    case Destination::Kind::early:
      vectors[(*count)++] = {destination_.early->data.get() + arrived_, rest};
      return rest;
  }
  return 0;
}

// `bytes` bytes were read straight into their places.
void Incoming::direct(uint64_t bytes) {
  if (destination_.kind == Destination::Kind::place && bytes > 0) cursor_.advance(bytes);
  arrived_ += bytes;
}

const char* Incoming::consume(FrameSink& sink) {
  for (;;) {
    if (in_payload_) {
      if (arrived_ == 0 && fold_in_place()) {
        finish(sink);
        continue;
      }
      const uint64_t take = std::min(frame_.payload - arrived_, end_ - begin_);
      const std::byte* const from = inbox_.get() + begin_;
      if (take > 0) {
        if (destination_.kind == Destination::Kind::place) cursor_.copy_in(from, take);
        if (destination_.kind == Destination::Kind::fold) std::memcpy(fold_.get() + arrived_, from, take);
        if (destination_.kind == Destination::Kind::early) {
          std::memcpy(destination_.early->data.get() + arrived_, from, take);
        }
      }
      arrived_ += take;
      begin_ += take;
      if (arrived_ < frame_.payload) break;
      finish(sink);
    }
    if (end_ - begin_ < kHeaderBytes) break;
    destination_ = {};
    if (const char* broken = decode(inbox_.get() + begin_, stamp_, &frame_)) return broken;
    if (const char* broken = sink.accept(frame_, &destination_)) return broken;
    begin_ += kHeaderBytes;
    in_payload_ = true;
    arrived_ = 0;
    if (destination_.kind == Destination::Kind::place) cursor_.seek(*destination_.message, frame_.offset);
    if (destination_.kind == Destination::Kind::fold && fold_ == nullptr) fold_ = pool_.take();
  }
  // What is left is less than a header; or nothing, amid a payload.
  if (begin_ > 0) std::memmove(inbox_.get(), inbox_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return nullptr;
}

// Folds a payload that lies whole and aligned in the inbox without moving it first.
bool Incoming::fold_in_place() {
  if (destination_.kind != Destination::Kind::fold || end_ - begin_ < frame_.payload) return false;
  if (begin_ % kPayloadUnit != 0) return false;
  deliver(*destination_.message, frame_.offset, inbox_.get() + begin_, frame_.payload);
  begin_ += frame_.payload;
  arrived_ = frame_.payload;
  destination_.kind = Destination::Kind::place;  // nothing is left to fold
  return true;
}

void Incoming::finish(FrameSink& sink) {
  if (destination_.kind == Destination::Kind::fold) {
    deliver(*destination_.message, frame_.offset, fold_.get(), frame_.payload);
  }
  pool_.give(std::move(fold_));
  in_payload_ = false;
  sink.complete(frame_, destination_);
}

void Incoming::forget(const Message& message) {
  if (cursor_.of(message)) cursor_.forget();
  if (in_payload_ && destination_.message == &message) destination_ = {};
}

}  // namespace regroup::transport::tcp
