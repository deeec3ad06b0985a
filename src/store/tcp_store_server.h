// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "net/address.h"
#include "regroup/store.h"

namespace regroup::store {

// Serves a store at `where` from a thread of its own. A numeric host or "localhost" is bound as it is; any other name
// stands for this host, and all its addresses are bound. Nothing is authenticated: whoever reaches the port can read
// and write.
Result<std::shared_ptr<StoreServer>> serve_tcp_store(const net::HostPort& where);

}  // namespace regroup::store
