// SPDX-License-Identifier: Apache-2.0
// Memory for the buffers of one case after another, with marked gaps around each: a write past a buffer's end is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace regroup::conformance {

class Arena {
 public:
  // Takes pieces from `bytes` bytes at `data`, which the caller owns.
  Arena(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  // Forgets all pieces.
  void reset();
  // `bytes` bytes between two gaps, on a cache line's boundary plus `shift`.
  std::byte* take(uint64_t bytes, uint64_t shift);
  // Whether every gap is as it was made.
  bool intact() const;

 private:
  struct Gap {
    uint64_t begin, end;
  };
  void mark(uint64_t begin, uint64_t end);

  std::byte* data_;
  uint64_t bytes_;
  uint64_t used_ = 0;
  std::vector<Gap> gaps_;
};

}  // namespace regroup::conformance
