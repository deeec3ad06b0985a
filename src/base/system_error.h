// SPDX-License-Identifier: Apache-2.0
// The operating system's refusal as a Status.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "regroup/status.h"

namespace regroup::base {

// "<what>: <the system's words>". Running out of descriptors or memory is `resource_exhausted`, all else `io_error`.
inline Status system_error(std::string what, int error = errno) {
  const bool exhausted = error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == ENOSPC;
  const StatusCode code = exhausted ? StatusCode::resource_exhausted : StatusCode::io_error;
  return Status(code, std::move(what) + ": " + std::generic_category().message(error));
}

}  // namespace regroup::base
