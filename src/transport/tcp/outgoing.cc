// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/outgoing.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace regroup::transport::tcp {

namespace {
constexpr size_t kMaxStaged = 32;                 // frames
constexpr uint64_t kMaxStagedBytes = 512 * 1024;  // new frames are staged below this
constexpr int kMaxVectors = 96;
constexpr int kMaxWrites = 16;  // a flush: the other streams want their turn
}  // namespace

void MessageQueue::push(Message& message) {
  message.next = nullptr;
  (tail_ == nullptr ? head_ : tail_->next) = &message;
  tail_ = &message;
}

Message* MessageQueue::pop() {
  Message* const message = head_;
  if (message != nullptr) remove(*message);
  return message;
}

bool MessageQueue::remove(Message& message) {
  Message* before = nullptr;
  for (Message* at = head_; at != nullptr; before = at, at = at->next) {
    if (at != &message) continue;
    (before == nullptr ? head_ : before->next) = at->next;
    if (tail_ == at) tail_ = before;
    at->next = nullptr;
    return true;
  }
  return false;
}

Outgoing::Outgoing(const Stamp& stamp, PayloadPool& pool) : stamp_(stamp), pool_(pool) { staged_.reserve(kMaxStaged); }

bool Outgoing::offer_eager(Message& message) {
  if (message.bytes > kEagerLimit || outstanding_ + eager_cost(message.bytes) > kWindow) return false;
  outstanding_ += eager_cost(message.bytes);
  eager_.push(message);
  return true;
}

void Outgoing::stream(Message& message) { bulk_.push(message); }

bool Outgoing::credit(uint64_t bytes) {
  if (bytes > outstanding_) return false;
  outstanding_ -= bytes;
  return true;
}

void Outgoing::remove(Message& message) {
  if (eager_.remove(message)) outstanding_ -= eager_cost(message.bytes);
  bulk_.remove(message);
  if (next_piece_.of(message)) next_piece_.forget();
  for (size_t index = 0; index < staged_.size();) {
    Staged& frame = staged_[index];
    if (frame.message != &message) {
      ++index;
    } else if (frame.written > 0) {
      keep_copy(frame);
      ++index;
    } else {
      if (frame.eager) outstanding_ -= eager_cost(message.bytes);
      staged_bytes_ -= frame.bytes;
      staged_.erase(staged_.begin() + static_cast<ptrdiff_t>(index));
    }
  }
}

void Outgoing::keep_copy(Staged& frame) {
  const uint64_t payload_written = frame.written > kHeaderBytes ? frame.written - kHeaderBytes : 0;
  frame.copy = pool_.take();
  frame.copy_offset = payload_written;
  frame.cursor.copy_out(frame.copy.get(), frame.bytes - kHeaderBytes - payload_written);
  frame.message = nullptr;
}

void Outgoing::abandon() {
  control_.clear();
  next_control_ = 0;
  eager_.clear();
  bulk_.clear();
  staged_.clear();
  staged_bytes_ = 0;
  next_piece_.forget();
  blocked_ = false;
}

void Outgoing::stage() {
  while (staged_.size() < kMaxStaged && staged_bytes_ < kMaxStagedBytes) {
    if (next_control_ < control_.size()) {
      Staged& frame = staged_.emplace_back();
      encode(control_[next_control_++], stamp_, frame.header.data());
      frame.bytes = kHeaderBytes;
      staged_bytes_ += frame.bytes;
    } else if (Message* small = eager_.pop()) {
      stage_piece(*small, FrameKind::eager, small->bytes);
    } else if (Message* large = bulk_.pop()) {
      stage_piece(*large, FrameKind::data, std::min(kMaxPayload, large->bytes - large->moved));
      if (large->moved < large->bytes) bulk_.push(*large);
    } else {
      break;
    }
  }
  if (next_control_ == control_.size()) {
    control_.clear();
    next_control_ = 0;
  }
}

void Outgoing::stage_piece(Message& message, FrameKind kind, uint64_t payload) {
  Staged& frame = staged_.emplace_back();
  const Frame header{kind,          message.key,   message.fingerprint,
                     message.bytes, message.moved, static_cast<uint32_t>(payload)};
  encode(header, stamp_, frame.header.data());
  next_piece_.seek(message, message.moved);
  frame.message = &message;
  frame.cursor = next_piece_;
  frame.eager = kind == FrameKind::eager;
  frame.last = header.last();
  frame.bytes = kHeaderBytes + payload;
  staged_bytes_ += frame.bytes;
  message.moved += payload;
  if (frame.last) next_piece_.forget();
}

uint64_t Outgoing::describe(iovec* vectors, int* count) const {
  uint64_t described = 0;
  for (const Staged& frame : staged_) {
    if (*count + 2 > kMaxVectors) break;
    if (frame.written < kHeaderBytes) {
      const uint64_t rest = kHeaderBytes - frame.written;
      vectors[(*count)++] = {const_cast<std::byte*>(frame.header.data()) + frame.written, rest};
      described += rest;
    }
    const uint64_t payload_written = frame.written > kHeaderBytes ? frame.written - kHeaderBytes : 0;
    const uint64_t rest = frame.bytes - kHeaderBytes - payload_written;
    if (rest == 0) continue;
    if (frame.message == nullptr) {
      vectors[(*count)++] = {frame.copy.get() + (payload_written - frame.copy_offset), rest};
      described += rest;
      continue;
    }
    const uint64_t took = frame.cursor.describe(rest, vectors, kMaxVectors - *count, count);
    described += took;
    if (took < rest) break;  // more pieces than entries: the rest with the next call
  }
  return described;
}

void Outgoing::written(uint64_t bytes) {
  staged_bytes_ -= bytes;
  size_t finished = 0;
  for (Staged& frame : staged_) {
    const uint64_t take = std::min(bytes, frame.bytes - frame.written);
    const uint64_t header = frame.written < kHeaderBytes ? std::min(take, kHeaderBytes - frame.written) : 0;
    if (frame.message != nullptr) frame.cursor.advance(take - header);
    frame.written += take;
    bytes -= take;
    if (frame.written < frame.bytes) break;
    if (frame.message != nullptr && frame.last) {
      frame.message->state = Message::State::done;
      frame.message->phase = 0;
    }
    pool_.give(std::move(frame.copy));
    ++finished;
  }
  staged_.erase(staged_.begin(), staged_.begin() + static_cast<ptrdiff_t>(finished));
}

bool Outgoing::flush(int fd, int* error) {
  bool moved = false;
  blocked_ = false;
  *error = 0;
  for (int turn = 0; turn < kMaxWrites; ++turn) {
    stage();
    if (staged_.empty()) break;
    iovec vectors[kMaxVectors];
    int count = 0;
    const uint64_t asked = describe(vectors, &count);
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
        blocked_ = true;
      } else {
        *error = errno;
      }
      break;
    }
    moved = moved || sent > 0;
    written(static_cast<uint64_t>(sent));
    if (static_cast<uint64_t>(sent) < asked) {
      blocked_ = true;
      break;
    }
  }
  return moved;
}

}  // namespace regroup::transport::tcp
