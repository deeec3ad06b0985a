// SPDX-License-Identifier: Apache-2.0
// Threads of the library's own.
#pragma once

#include <functional>
#include <thread>

#include "regroup/status.h"

namespace regroup::base {

// Starts `*thread`, which is none yet. The application's signals are not for it. `resource_exhausted` where the system
// gives no thread.
Status start_thread(std::thread* thread, std::function<void()> body);

}  // namespace regroup::base
