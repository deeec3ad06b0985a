// SPDX-License-Identifier: Apache-2.0
// Values in what control frames carry, one after the other, as they lie in memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace regroup::backend::native {

// The first value, which goes from the rest; false where it is not all there.
template <typename T>
bool take(std::span<const std::byte>* from, T* out) {
  if (from->size() < sizeof(T)) return false;
  std::memcpy(out, from->data(), sizeof(T));
  *from = from->subspan(sizeof(T));
  return true;
}

// Behind what is there.
template <typename T>
void put(std::vector<std::byte>* to, const T& value) {
  const size_t at = to->size();
  to->resize(at + sizeof(T));
  std::memcpy(to->data() + at, &value, sizeof(T));
}

}  // namespace regroup::backend::native
