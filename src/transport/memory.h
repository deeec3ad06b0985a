// SPDX-License-Identifier: Apache-2.0
// Where an operation's elements lie in this process, in bytes. The buffers belong to the caller of the operation; these
// are views.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace regroup::transport {

struct Segment {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

// One space (input, output or scratch) of one operation: `parts` parts, either one after the other from `base` and all
// of `part_bytes` bytes, or where `list` says. Reading through an input's view never writes.
struct SpaceMemory {
  std::byte* base = nullptr;
  uint64_t part_bytes = 0;
  const Segment* list = nullptr;  // `parts` entries, or nullptr for the contiguous form
  uint32_t parts = 0;

  uint64_t total() const {
    if (list == nullptr) return part_bytes * parts;
    uint64_t sum = 0;
    for (uint32_t part = 0; part < parts; ++part) sum += list[part].bytes;
    return sum;
  }
  uint64_t bytes_of(uint32_t part) const { return list == nullptr ? part_bytes : list[part].bytes; }

  Segment part(uint32_t index) const {
    return list == nullptr ? Segment{base + index * part_bytes, part_bytes} : list[index];
  }

  // Calls visit(std::byte* data, uint64_t bytes) for each contiguous piece of `bytes` bytes from byte `offset` of
  // `part`, running on into the following parts.
  template <typename Visit>
  void pieces(uint32_t part, uint64_t offset, uint64_t bytes, Visit visit) const {
    if (list == nullptr) {
      if (bytes > 0) visit(base + part * part_bytes + offset, bytes);
      return;
    }
    while (bytes > 0) {
      REGROUP_ASSERT(part < parts);
      const Segment& segment = list[part];
      if (offset < segment.bytes) {
        const uint64_t take = bytes < segment.bytes - offset ? bytes : segment.bytes - offset;
        visit(segment.data + offset, take);
        bytes -= take;
        offset = 0;
      } else {
        offset -= segment.bytes;
      }
      ++part;
    }
  }
};

// The three spaces of one member of an operation, in the order of plan::Space.
struct MemberMemory {
  SpaceMemory spaces[3];
  uint32_t element_bytes = 1;
};

}  // namespace regroup::transport
