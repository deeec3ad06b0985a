// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "regroup/store.h"

namespace regroup::store {

// Opens the store in the file at `path` and makes it where there is none. Every process of a group opens it for itself.
// A file must be fresh for each job: what an earlier one left is taken for this one's.
Result<std::shared_ptr<Store>> open_file_store(const std::string& path, Store::Duration timeout);

}  // namespace regroup::store
