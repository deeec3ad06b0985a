// SPDX-License-Identifier: Apache-2.0
// A fast 64-bit mixing hash for fingerprints and cache keys. Not for adversaries; stable across hosts and versions of
// one epoch of the wire format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace regroup::base {

__extension__ typedef unsigned __int128 Wide;

// One multiply-and-fold round: both halves of the 128-bit product are kept.
constexpr uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd6e8feb86659fd93ull);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed = 0) {
  uint64_t state = mix(seed, bytes);
  const char* at = static_cast<const char*>(data);
  for (; bytes >= 8; at += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = mix(state, word);
  }
  uint64_t tail = 0;
  if (bytes > 0) std::memcpy(&tail, at, bytes);  // `data` may be null where there is nothing
  return mix(state, tail);
}

inline uint64_t hash_bytes(std::string_view text, uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

}  // namespace regroup::base
