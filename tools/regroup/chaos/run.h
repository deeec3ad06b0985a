// SPDX-License-Identifier: Apache-2.0
// One run from beginning to end: starts the ranks, brings the fault upon them, waits with a bound, ends what is left.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chaos/scenario.h"

namespace regroup::tool::chaos {

enum class Verdict : uint8_t { right, wrong, hung, crashed };

struct Report {
  Verdict verdict = Verdict::right;
  std::vector<std::string> complaints;
  std::optional<double> detect_ms, recover_ms, abort_ms;
  uint64_t operations = 0;  // whose results were checked, over all ranks
};

// `folder` is an empty one, and is so again afterwards.
Report run(const Scenario& scenario, const std::string& folder);

}  // namespace regroup::tool::chaos
