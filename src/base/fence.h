// SPDX-License-Identifier: Apache-2.0
// The two orderings that C++ spells only as fences. ThreadSanitizer does not understand fences, so under it they are
// made of ordered atomics.
#pragma once

#include <atomic>

namespace regroup::base {

#if defined(__SANITIZE_THREAD__)
#define REGROUP_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REGROUP_THREAD_SANITIZER 1
#endif
#endif

// Stores before it are visible before loads after it are made (publish, then look who sleeps).
inline void full_fence() {
#ifdef REGROUP_THREAD_SANITIZER
  static std::atomic<int> word;
  word.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Loads before it are made before loads after it (read a block, then look whether it still counts).
inline void load_fence() {
#ifdef REGROUP_THREAD_SANITIZER
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// A hint that this is a spinning loop.
inline void spin_hint() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace regroup::base
