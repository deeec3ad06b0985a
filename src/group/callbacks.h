// SPDX-License-Identifier: Apache-2.0
// The thread on which users' callbacks run: one a process, made at the first callback. Never a thread that drives a
// group, so that a callback may do what it likes.
#pragma once

#include <functional>

namespace regroup::group {

// Runs `callback` there, after those that were given before. Any thread; does not block.
void run_on_callback_thread(std::function<void()> callback);

}  // namespace regroup::group
