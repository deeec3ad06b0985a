// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>
namespace regroup::reduce {
inline void copy_streaming(void* to, const void* from, uint64_t bytes) { std::memcpy(to, from, bytes); }
}
