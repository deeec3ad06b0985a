// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/frame.h"

#include <type_traits>

namespace regroup::transport::tcp {

namespace {

constexpr uint32_t kMagic = 0x50526752;  // "RgRP"
constexpr uint16_t kVersion = 1;

template <typename T>
void put(std::byte* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename T>
T get(const std::byte* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(at[i]) << (8 * i));
  return value;
}

const char* check_sizes(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::eager:
      if (frame.total > kEagerLimit || frame.payload != frame.total || frame.offset != 0)
        return "an eager frame's size";
      return nullptr;
    case FrameKind::data:
      if (frame.payload > kMaxPayload) return "a payload over the limit";
      if (frame.offset > frame.total || frame.payload > frame.total - frame.offset)
        return "a payload beyond its message";
      if (frame.payload == 0 && frame.total != 0) return "an empty piece of a message";
      if (!frame.last() && frame.payload % kPayloadUnit != 0) return "a payload that cuts an element";
      return nullptr;
    default:
      return frame.payload == 0 ? nullptr : "a payload where none belongs";
  }
}

}  // namespace

void encode(const Frame& frame, const Stamp& stamp, std::byte* header) {
  put<uint32_t>(header, kMagic);
  put<uint8_t>(header + 4, static_cast<uint8_t>(frame.kind));
  put<uint8_t>(header + 5, static_cast<uint8_t>(frame.key.lane));
  put<uint16_t>(header + 6, kVersion);
  put<uint64_t>(header + 8, stamp.token);
  put<uint32_t>(header + 16, stamp.epoch);
  put<uint32_t>(header + 20, frame.key.tag);
  put<uint64_t>(header + 24, frame.key.sequence);
  put<uint32_t>(header + 32, frame.key.number);
  put<uint32_t>(header + 36, frame.payload);
  put<uint64_t>(header + 40, frame.fingerprint);
  put<uint64_t>(header + 48, frame.total);
  put<uint64_t>(header + 56, frame.offset);
}

const char* decode(const std::byte* header, const Stamp& stamp, Frame* frame) {
  if (get<uint32_t>(header) != kMagic) return "no frame header";
  if (get<uint16_t>(header + 6) != kVersion) return "another version of the wire format";
  if (get<uint64_t>(header + 8) != stamp.token) return "a frame of another group";
  if (get<uint32_t>(header + 16) != stamp.epoch) return "a frame of another epoch";
  const auto kind = get<uint8_t>(header + 4);
  const auto lane = get<uint8_t>(header + 5);
  if (kind < 1 || kind > static_cast<uint8_t>(FrameKind::refuse_receive)) return "an unknown kind of frame";
  if (lane > 1) return "an unknown lane";
  frame->kind = static_cast<FrameKind>(kind);
  frame->key.lane = static_cast<MessageKey::Lane>(lane);
  frame->key.tag = get<uint32_t>(header + 20);
  frame->key.sequence = get<uint64_t>(header + 24);
  frame->key.number = get<uint32_t>(header + 32);
  frame->payload = get<uint32_t>(header + 36);
  frame->fingerprint = get<uint64_t>(header + 40);
  frame->total = get<uint64_t>(header + 48);
  frame->offset = get<uint64_t>(header + 56);
  return check_sizes(*frame);
}

}  // namespace regroup::transport::tcp
