// SPDX-License-Identifier: Apache-2.0
// regroup itself as a contender, with the floor that belongs to its transport.
#pragma once

#include <memory>
#include <string>

#include "contest/contender.h"
#include "contest/floor.h"
#include "measurement.h"

namespace regroup::tool {

// For one rank. `ring` may be nullptr: the floor is then that of copies.
std::unique_ptr<contest::Contender> make_regroup_contender(const Measurement& what, const std::string& store_url,
                                                           contest::SocketRing* ring);

}  // namespace regroup::tool
