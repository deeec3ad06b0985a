// SPDX-License-Identifier: Apache-2.0
// Words for people, in messages.
#pragma once

#include <string>
#include <vector>

#include "regroup/types.h"

namespace regroup::backend::native {

// "rank 3", "ranks 1, 2".
inline std::string list(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace regroup::backend::native
