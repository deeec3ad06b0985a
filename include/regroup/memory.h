// SPDX-License-Identifier: Apache-2.0
// Memory that every peer on this host can read directly, so that collectives copy nothing extra.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "regroup/status.h"

namespace regroup {

// A handle; copies share the memory, the last one frees it. That is safe at any time, also while a peer still reads:
// the pages go when all have let go. Backed by a memfd: nothing is left behind, /dev/shm is not used. Peers can map it
// for reading only.
class Allocation {
 public:
  struct State;
  Allocation() = default;
  explicit Allocation(std::shared_ptr<State> state);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  std::shared_ptr<State> state_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Zeroed, aligned to a page, all pages present; `resource_exhausted` if the machine has not that much.
Result<Allocation> allocate(uint64_t bytes);

}  // namespace regroup
