// SPDX-License-Identifier: Apache-2.0
// The frames of a stream between two ranks: a header of fixed size, little-endian, and up to 256 KiB of payload. This
// file knows what a single frame may say, not which frame may follow which.
//
//   bytes  0 magic u32 · 4 kind u8 · 5 lane u8 · 6 version u16 · 8 token u64 · 16 epoch u32 · 20 tag u32 · 24 sequence
//   u64
//         32 number u32 · 36 payload u32 · 40 fingerprint u64 · 48 total u64 · 56 offset u64
//
// A message of up to 64 KiB goes as one `eager` frame while the window allows. Otherwise sender and receiver find each
// other by `announce` (from the sender) and `ready` (from the receiver); then come `data` frames.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/message.h"

namespace regroup::transport::tcp {

inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kMaxPayload = 256 * 1024;  // of one frame
inline constexpr uint64_t kEagerLimit = 64 * 1024;   // bytes of a message that may go unasked
inline constexpr uint64_t kWindow = 1024 * 1024;     // eager_cost() outstanding between two ranks, each way
inline constexpr uint64_t kPayloadUnit = 16;         // payloads but a message's last are multiples: whole elements
inline constexpr uint64_t kMaxAnnounced = 1u << 20;  // messages that a peer may announce ahead of our posting them

// What a message takes of the window: its header counts, so that empty messages are bounded too.
constexpr uint64_t eager_cost(uint64_t bytes) { return bytes + kHeaderBytes; }

enum class FrameKind : uint8_t {
  eager = 1,        // a whole message
  announce = 2,     // sender: I have this message for you
  ready = 3,        // receiver: send it
  data = 4,         // a piece of a message that the receiver is ready for
  credit = 5,       // `total` of the window is free again
  refuse_send = 6,  // receiver: your message is not what I expect. This fingerprint and `total` are mine, and `offset`
                    // is the size that you named
  refuse_receive = 7,  // sender: the same about a message that you are ready for
};

// What all frames of a stream have in common.
struct Stamp {
  uint64_t token = 0;
  uint32_t epoch = 0;
};

struct Frame {
  FrameKind kind = FrameKind::data;
  MessageKey key;
  uint64_t fingerprint = 0;
  uint64_t total = 0;    // of the message, in bytes
  uint64_t offset = 0;   // of the payload in the message, in bytes (but see refuse_send)
  uint32_t payload = 0;  // bytes that follow the header

  bool last() const { return offset + payload == total; }
};

void encode(const Frame& frame, const Stamp& stamp, std::byte* header);

// Fills `*frame` and returns nullptr, or says what is wrong with the header.
const char* decode(const std::byte* header, const Stamp& stamp, Frame* frame);

}  // namespace regroup::transport::tcp
