// SPDX-License-Identifier: Apache-2.0
// Copies of plain data that its owner may be writing anew: word by word, so that a reader that comes too late sees some
// old and some new words, and never a torn one. It has to look afterwards whether what it copied was still meant for
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace regroup::transport::shm {

// Of whole words, at a word's address in shared memory; `from` is the owner's own.
inline void store_words(void* shared, const void* from, uint64_t bytes) {
  auto* to = static_cast<uint64_t*>(shared);
  const auto* at = static_cast<const std::byte*>(from);
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    std::atomic_ref(*to++).store(word, std::memory_order_relaxed);
  }
}

inline void load_words(void* to, const void* shared, uint64_t bytes) {
  // Loads alone: the memory may be mapped for reading only.
  auto* from = const_cast<uint64_t*>(static_cast<const uint64_t*>(shared));
  auto* at = static_cast<std::byte*>(to);
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    const uint64_t word = std::atomic_ref(*from++).load(std::memory_order_relaxed);
    std::memcpy(at, &word, sizeof word);
  }
}

template <typename T>
T load_words(const T& shared) {
  static_assert(sizeof(T) % sizeof(uint64_t) == 0 && alignof(T) >= alignof(uint64_t));
  T copy;
  load_words(&copy, &shared, sizeof copy);
  return copy;
}

}  // namespace regroup::transport::shm
