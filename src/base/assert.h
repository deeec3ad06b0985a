// SPDX-License-Identifier: Apache-2.0
// Assertions are for bugs of regroup, never for operating faults or bad arguments. They stay on in release builds.
#pragma once

namespace regroup::base {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

#define REGROUP_ASSERT(expression) \
  (__builtin_expect(!!(expression), 1) ? (void)0 : ::regroup::base::assertion_failed(#expression, __FILE__, __LINE__))
