// SPDX-License-Identifier: Apache-2.0
// Balanced partition: n elements over p parts, the first n mod p parts get one more.
#pragma once

#include <cstdint>

namespace regroup::plan {

struct Share {
  uint64_t offset = 0;
  uint64_t count = 0;
};

constexpr Share share_of(uint64_t total, uint64_t parts, uint64_t index) {
  const uint64_t base = total / parts;
  const uint64_t more = total % parts;
  const uint64_t before = index < more ? index : more;
  return {index * base + before, base + (index < more ? 1 : 0)};
}

}  // namespace regroup::plan
