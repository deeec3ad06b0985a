// SPDX-License-Identifier: Apache-2.0
#include "transport/message.h"

#include <algorithm>
#include <cstring>

namespace regroup::transport {

namespace {

// Calls visit(piece, bytes) for the pieces of the message's memory that hold its bytes [offset, offset + bytes).
template <typename Visit>
void visit_pieces(const Message& message, uint64_t offset, uint64_t bytes, Visit visit) {
  for (const Segment& segment : message.segments) {
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

}  // namespace

void deliver(const Message& message, uint64_t offset, const std::byte* data, uint64_t bytes) {
  visit_pieces(message, offset, bytes, [&](std::byte* to, uint64_t take) {
    if (message.folding == nullptr) {
      std::memcpy(to, data, take);
    } else {
      const Folding& folding = *message.folding;
      const void* sources[2] = {to, data};
      if (folding.received_first) std::swap(sources[0], sources[1]);
      folding.fold(to, sources, 2, take / folding.element_bytes, folding.options);
    }
    data += take;
  });
}

void gather(const Message& message, uint64_t offset, std::byte* to, uint64_t bytes) {
  visit_pieces(message, offset, bytes, [&](const std::byte* from, uint64_t take) {
    std::memcpy(to, from, take);
    to += take;
  });
}

}  // namespace regroup::transport
