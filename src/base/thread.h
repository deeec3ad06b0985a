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

// For a thread that sleeps, and has little to do when it is woken: asks the scheduler for short turns, so that it gets
// the first one soon also where all cores are busy. Without effect before Linux 6.12.
void take_short_turns();

}  // namespace regroup::base
