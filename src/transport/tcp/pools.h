// SPDX-License-Identifier: Apache-2.0
// What a transport keeps for reuse: records of messages that came before they were posted, and buffers for one payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "transport/message.h"
#include "transport/tcp/frame.h"

namespace regroup::transport::tcp {

// A message that a peer sent, announced or is ready for, before this rank posted its side.
struct Early {
  enum class State : uint8_t { announced, ready, arriving, arrived };

  State state = State::announced;
  MessageKey key;
  uint64_t fingerprint = 0;
  uint64_t bytes = 0;
  std::unique_ptr<std::byte[]> data;  // arriving, arrived: the whole message
  uint64_t capacity = 0;              // of `data`
};

class EarlyPool {
 public:
  Early* take(Early::State state, const Frame& frame) {
    Early* early = nullptr;
    if (free_.empty()) {
      early = new Early;
    } else {
      early = free_.back().release();
      free_.pop_back();
    }
    early->state = state;
    early->key = frame.key;
    early->fingerprint = frame.fingerprint;
    early->bytes = frame.total;
    if (state == Early::State::arriving && early->capacity < frame.total) {
      early->data = std::make_unique_for_overwrite<std::byte[]>(frame.total);
      early->capacity = frame.total;
    }
    return early;
  }

  void give(Early* early) {
    std::unique_ptr<Early> owned(early);
    if (free_.size() >= kKept) return;
    if (owned->capacity > kKeptBytes) {
      owned->data.reset();
      owned->capacity = 0;
    }
    free_.push_back(std::move(owned));
  }

 private:
  static constexpr size_t kKept = 1024;         // records
  static constexpr uint64_t kKeptBytes = 4096;  // of memory with each: larger buffers go back at once
  std::vector<std::unique_ptr<Early>> free_;
};

// 64-byte aligned memory.
struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

inline AlignedBytes allocate_aligned(uint64_t bytes) {
  return AlignedBytes(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64})));
}

// Buffers of kMaxPayload bytes.
class PayloadPool {
 public:
  AlignedBytes take() {
    if (free_.empty()) return allocate_aligned(kMaxPayload);
    AlignedBytes buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give(AlignedBytes buffer) {
    if (buffer != nullptr && free_.size() < kKept) free_.push_back(std::move(buffer));
  }

 private:
  static constexpr size_t kKept = 16;
  std::vector<AlignedBytes> free_;
};

}  // namespace regroup::transport::tcp
