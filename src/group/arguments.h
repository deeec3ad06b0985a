// SPDX-License-Identifier: Apache-2.0
// Argument checks, once, before anything moves: an Operation becomes a Request, or a Status that says what was given
// and what is taken. Looks at this rank's arguments alone; what ranks must agree on is compared later.
#pragma once

#include "backend/request.h"
#include "regroup/operation.h"
#include "regroup/status.h"

namespace regroup::group {

struct ArgumentContext {
  Rank rank = 0;
  Rank size = 1;
  std::chrono::nanoseconds timeout{0};  // the group's
};

Status check_arguments(const Operation& operation, const ArgumentContext& context, backend::Request* request);

}  // namespace regroup::group
