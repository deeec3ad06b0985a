// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/clock.h"
#include "net/address.h"
#include "regroup/store.h"

namespace regroup::store {

// A client of a TCP store, this library's or torch's. Tries until the deadline; `timeout` tells the address and how
// long.
Result<std::shared_ptr<Store>> connect_tcp_store(const net::HostPort& where, base::Time deadline);

}  // namespace regroup::store
