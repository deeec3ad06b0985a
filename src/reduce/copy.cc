// SPDX-License-Identifier: Apache-2.0
// Whole cache lines by streaming stores between two ordinary ends.
#include "reduce/copy.h"

#include "reduce/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/copy.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Copies whole groups of four vectors, at least one, to an aligned address; returns the bytes copied.
uint64_t stream_vectors(uint8_t* HWY_RESTRICT to, const uint8_t* HWY_RESTRICT from, uint64_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, bytes);
  return bytes;
#else
  const hn::ScalableTag<uint8_t> d;
  const uint64_t lanes = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, from + i);
    const auto v1 = hn::LoadU(d, from + i + lanes);
    const auto v2 = hn::LoadU(d, from + i + 2 * lanes);
    const auto v3 = hn::LoadU(d, from + i + 3 * lanes);
    hn::Stream(v0, d, to + i);
    hn::Stream(v1, d, to + i + lanes);
    hn::Stream(v2, d, to + i + 2 * lanes);
    hn::Stream(v3, d, to + i + 3 * lanes);
  }
  return i;
#endif
}

}  // namespace
}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace regroup::reduction {
namespace {

HWY_EXPORT(stream_vectors);

constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kWorthStreaming = 4096;

uint64_t measure_threshold() {
  const long last_private_cache = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or −1 where unknown
  return std::max<uint64_t>(last_private_cache > 0 ? static_cast<uint64_t>(last_private_cache) : 0, uint64_t{1} << 20);
}

}  // namespace

void copy_streaming(void* to, const void* from, uint64_t bytes) {
  if (bytes < kWorthStreaming) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* destination = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  const uint64_t head = -reinterpret_cast<uintptr_t>(destination) % kCacheLine;
  std::memcpy(destination, source, head);
  const uint64_t done = head + HWY_DYNAMIC_DISPATCH(stream_vectors)(destination + head, source + head, bytes - head);
  std::memcpy(destination + done, source + done, bytes - done);
  hwy::FlushStream();
}

uint64_t streaming_threshold() {
  static const uint64_t threshold = measure_threshold();
  return threshold;
}

}  // namespace regroup::reduction
#endif
