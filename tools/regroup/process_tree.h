// SPDX-License-Identifier: Apache-2.0
// All processes that descend from this one, whatever group or session they moved to: found in /proc, ended together.
#pragma once

#include <sys/types.h>

#include <vector>

namespace regroup::tool {

// Orphans among the descendants become this process's children instead of init's.
void adopt_orphans();

// Of the calling process, itself left out.
std::vector<pid_t> descendants();

// Sends `signal` to all of them; returns how many there were.
size_t signal_descendants(int signal);

}  // namespace regroup::tool
