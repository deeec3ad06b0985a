// SPDX-License-Identifier: Apache-2.0
// A place in a message's memory, from which bytes are read or written in order.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "transport/message.h"

namespace regroup::transport::tcp {

class SegmentCursor {
 public:
  // To byte `offset` of `message`. Cheap where it stands at or before that byte of the same message already.
  void seek(const Message& message, uint64_t offset) {
    if (message_ != &message || offset < position_) {
      message_ = &message;
      segments_ = message.segments;
      index_ = 0;
      within_ = 0;
      position_ = 0;
    }
    advance(offset - position_);
  }

  // Another message may lie at the same address from now on.
  void forget() { message_ = nullptr; }
  bool of(const Message& message) const { return message_ == &message; }

  // Describes the next `bytes` bytes in at most `room` entries from vectors[*count] on. Returns the bytes described.
  uint64_t describe(uint64_t bytes, iovec* vectors, int room, int* count) const {
    uint64_t described = 0;
    uint64_t within = within_;
    for (size_t index = index_; described < bytes && room > 0; ++index, within = 0) {
      const Segment& segment = segments_[index];
      const uint64_t take = std::min(bytes - described, segment.bytes - within);
      if (take == 0) continue;
      vectors[(*count)++] = {segment.data + within, take};
      --room;
      described += take;
    }
    return described;
  }

  void advance(uint64_t bytes) {
    walk(bytes, [](std::byte*, uint64_t) {});
  }
  void copy_in(const std::byte* data, uint64_t bytes) {
    walk(bytes, [&](std::byte* at, uint64_t take) {
      std::memcpy(at, data, take);
      data += take;
    });
  }
  void copy_out(std::byte* data, uint64_t bytes) {
    walk(bytes, [&](const std::byte* at, uint64_t take) {
      std::memcpy(data, at, take);
      data += take;
    });
  }

 private:
  template <typename Visit>
  void walk(uint64_t bytes, Visit visit) {
    position_ += bytes;
    while (bytes > 0) {
      REGROUP_ASSERT(index_ < segments_.size());
      const Segment& segment = segments_[index_];
      const uint64_t take = std::min(bytes, segment.bytes - within_);
      if (take > 0) visit(segment.data + within_, take);
      bytes -= take;
      within_ += take;
      if (within_ == segment.bytes) {
        ++index_;
        within_ = 0;
      }
    }
  }

  const Message* message_ = nullptr;
  std::span<const Segment> segments_;
  size_t index_ = 0;       // of the segment
  uint64_t within_ = 0;    // bytes into it
  uint64_t position_ = 0;  // bytes into the message
};

}  // namespace regroup::transport::tcp
