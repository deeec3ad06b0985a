// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace regroup::base {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "regroup: bug: %s does not hold (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace regroup::base
