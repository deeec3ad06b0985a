// SPDX-License-Identifier: Apache-2.0
// Runs a test under every instruction set that the kernels are compiled for and this machine has.
#pragma once

#include "reduce/targets.h"
// After it, as Highway's headers read what it defines.
#include <hwy/highway.h>

namespace regroup::reduction {

template <class Body>
void for_each_target(Body body) {
  const int64_t fallback = HWY_SCALAR | HWY_EMU128;
  int64_t left = (hwy::SupportedTargets() & ~int64_t{HWY_DISABLED_TARGETS}) | HWY_STATIC_TARGET;
  left &= HWY_TARGETS | fallback;
  for (; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::GetChosenTarget().Update(target);
    body(hwy::TargetName(target));
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace regroup::reduction
