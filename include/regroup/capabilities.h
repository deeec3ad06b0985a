// SPDX-License-Identifier: Apache-2.0
// What can be had: for each collective × type × operator native, emulated or unsupported.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "regroup/types.h"

namespace regroup {

enum class Support : uint8_t { native, emulated, unsupported };
std::string_view name(Support support);

struct Availability {
  std::string name;
  std::string version;
  bool available = false;
  std::string reason;  // why not; empty if available
};

struct Capabilities {
  struct Row {
    std::string backend;
    Collective collective;
    DataType type;
    ReduceOp::Kind op;  // sum where the collective reduces nothing
    Support support;
  };
  std::vector<Availability> backends;
  std::vector<Availability> transports;
  std::vector<Row> table;
};

// Of this build on this machine.
Capabilities capabilities();

}  // namespace regroup
