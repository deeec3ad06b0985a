// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>

namespace regroup::base {

Status start_thread(std::thread* thread, std::function<void()> body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    *thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    status = Status(StatusCode::resource_exhausted, std::string("cannot start a thread: ") + error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace regroup::base
