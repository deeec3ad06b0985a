// SPDX-License-Identifier: Apache-2.0
// Cuts the network between two sets of processes on this host: from then on every packet between them is dropped where
// it arrives, by a filter on the receiving socket. To both sides it is as if a cable had been pulled: no end of the
// connection is seen, acknowledgements do not come, the kernel sends again and again.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace regroup::tool::chaos {

// Whether this system lets one process reach into another's sockets; if not, why. Needs Linux 5.6 and the right to
// trace children.
std::string why_no_cuts();

// For each process whether it is on the far side. Empty if all went well; else what did not.
std::string cut(const std::vector<pid_t>& processes, const std::vector<bool>& far);

}  // namespace regroup::tool::chaos
