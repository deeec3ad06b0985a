// SPDX-License-Identifier: Apache-2.0
// Reads a table of measured choices (algorithms/tuning.h) from a file.
#pragma once

#include <memory>
#include <string>

#include "algorithms/tuning.h"
#include "regroup/status.h"

namespace regroup::backend::native {

// `invalid_argument` that names the file, and the line where there is one: it cannot be read, or it is no such table.
Result<std::shared_ptr<const algorithms::Tuning>> read_tuning(const std::string& path);

}  // namespace regroup::backend::native
