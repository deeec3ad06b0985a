// SPDX-License-Identifier: Apache-2.0
// Files of modules: where they are, and trying one out in a process of its own.
#pragma once

#include <string>

#include "regroup/module.h"

namespace regroup::module {

std::string file_name(const std::string& name);  // "regroup-gloo.so"
std::string file_of(const std::string& name);    // the first on the search path; empty: there is none

// Loads the file into this process and asks for its table; nullptr if it has none for this interface. `error` (may be
// nullptr) gets what the loader said.
const regroup_module* table_in(const std::string& path, std::string* error = nullptr);

struct Trial {
  std::string version;
  std::string reason;  // why it cannot be used; empty if it can
};

// In a forked child; once a process and module. Takes no longer than ten seconds.
Trial try_out(const std::string& name);

}  // namespace regroup::module
