// SPDX-License-Identifier: Apache-2.0
#include "transport/message.h"

#include <algorithm>
#include <cstring>

namespace regroup::transport {

namespace {

// Calls visit(piece, bytes) for the pieces of a message's memory that hold its bytes [offset, offset + bytes).
template <typename Visit>
void visit_pieces(std::span<const Segment> segments, uint64_t offset, uint64_t bytes, Visit visit) {
  for (const Segment& segment : segments) {
    if (bytes == 0) return;
    if (offset >= segment.bytes) {
      offset -= segment.bytes;
      continue;
    }
    const uint64_t take = std::min(bytes, segment.bytes - offset);
    visit(segment.data + offset, take);
    bytes -= take;
    offset = 0;
  }
  REGROUP_ASSERT(bytes == 0);
}

// to ← kept ∘ came, or the other way round.
void fold(const Folding& folding, std::byte* to, const std::byte* kept, const std::byte* came, uint64_t bytes) {
  const void* sources[2] = {kept, came};
  if (folding.received_first) std::swap(sources[0], sources[1]);
  folding.fold(to, sources, 2, bytes / folding.element_bytes, folding.options);
}

}  // namespace

void deliver(const Message& message, uint64_t offset, const std::byte* data, uint64_t bytes) {
  visit_pieces(message.segments, offset, bytes, [&](std::byte* to, uint64_t take) {
    if (message.folding == nullptr) {
      std::memcpy(to, data, take);
      data += take;
    } else if (message.operand.empty()) {
      fold(*message.folding, to, to, data, take);
      data += take;
    } else {
      visit_pieces(message.operand, offset, take, [&](const std::byte* kept, uint64_t some) {
        fold(*message.folding, to, kept, data, some);
        to += some;
        data += some;
      });
    }
    offset += take;
  });
}

void gather(const Message& message, uint64_t offset, std::byte* to, uint64_t bytes) {
  visit_pieces(message.segments, offset, bytes, [&](const std::byte* from, uint64_t take) {
    std::memcpy(to, from, take);
    to += take;
  });
}

}  // namespace regroup::transport
