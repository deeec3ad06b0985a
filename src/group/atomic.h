// SPDX-License-Identifier: Apache-2.0
// Operations that are all-or-nothing: what outputs held before is kept, the operation is run, and all members agree
// whether it ended well for every one of them. Where it did not, each puts back what it had.
#pragma once

#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "backend/request.h"
#include "regroup/status.h"

namespace regroup::group {

// One for each group: its memory is used again from call to call, and one atomic operation runs at a time. Thread safe.
class AtomicRunner {
 public:
  // The request's outcome, the same on all members of the next life. `timeout`: this member could not learn it; it
  // holds what it had, and has left the group, which has perhaps gone on.
  Status run(backend::Backend& backend, const backend::Request& request);

 private:
  std::timed_mutex mutex_;
  std::vector<std::byte> kept_;
};

}  // namespace regroup::group
