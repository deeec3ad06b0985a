// SPDX-License-Identifier: Apache-2.0
// A posted send or receive: what the executor hands to a transport and polls until it is done.
#pragma once

#include <cstdint>
#include <span>

#include "reduce/reduce.h"
#include "regroup/types.h"
#include "transport/memory.h"

namespace regroup::transport {

// What both sides of a message compute alike, so that they find each other. Collectives: lane `collective`, the group's
// sequence number, tag 0, the schedule's message number. Send and receive: lane `pairwise`, the caller's tag, and a
// sequence of their own that both sides count from 0 for each (peer, tag).
struct MessageKey {
  enum class Lane : uint32_t { collective, pairwise };
  Lane lane = Lane::collective;
  uint32_t tag = 0;
  uint64_t sequence = 0;
  uint32_t number = 0;

  friend bool operator==(const MessageKey&, const MessageKey&) = default;
};

// How arriving elements join those that are there.
struct Folding {
  reduction::Fold fold = nullptr;
  reduction::FoldOptions options;
  uint32_t element_bytes = 1;
  bool received_first = false;
};

// Owned by whoever posted it, who leaves it where it is, and the memory too, until `state` is neither idle nor posted.
// Only the thread that drives the group touches it.
struct Message {
  enum class State : uint8_t {
    idle,
    posted,
    done,        // send: the memory may be overwritten. receive: all bytes are in place
    mismatched,  // the other side means another fingerprint or size: `other_fingerprint`, `other_bytes`
    cancelled,
  };

  // Set by the poster.
  Rank peer = 0;
  MessageKey key;
  uint64_t fingerprint = 0;           // both sides must agree
  uint64_t bytes = 0;                 // sum of the segments; both sides must agree
  std::span<const Segment> segments;  // points to `single`, or to memory that outlives the message
  Segment single;
  const Folding* folding = nullptr;  // receives only: fold what arrives into the segments instead of overwriting them
  // Receives with a folding: what arrives is folded with this memory, of as many bytes and cut at elements, instead of
  // with what the segments hold. Empty: with the segments. Points to `single_operand`, or to what outlives the message.
  std::span<const Segment> operand;
  Segment single_operand;

  // Set by the transport.
  State state = State::idle;
  uint64_t other_fingerprint = 0;
  uint64_t other_bytes = 0;

  // For the transport's own use while posted.
  Message* next = nullptr;
  uint64_t moved = 0;
  uint32_t slot = 0;
  uint32_t phase = 0;

  bool finished() const { return state != State::idle && state != State::posted; }
};

// Puts `bytes` received bytes, which belong at byte `offset` of the message, where they go: copied or folded. With a
// folding, `offset` and `bytes` are multiples of the element size and `data` is aligned to the element.
void deliver(const Message& message, uint64_t offset, const std::byte* data, uint64_t bytes);

// The reverse: gathers `bytes` bytes from byte `offset` of the message into `to`.
void gather(const Message& message, uint64_t offset, std::byte* to, uint64_t bytes);

}  // namespace regroup::transport
