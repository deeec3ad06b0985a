// SPDX-License-Identifier: Apache-2.0
// How ranks that are not connected yet tell each other where they are: everyone gives a text and gets everyone's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "regroup/status.h"
#include "regroup/store.h"

namespace regroup::backend::native {

// The texts by rank; `timeout` names the ranks that did not come. Called on every rank the same number of times.
using Exchange = std::function<Result<std::vector<std::string>>(const std::string& mine, base::Time deadline)>;

// Through a store. `name` tells this meeting from others that use the same store; meetings of one name may follow each
// other.
Exchange exchange_through(std::shared_ptr<Store> store, std::string name, Rank rank, Rank size);

}  // namespace regroup::backend::native
