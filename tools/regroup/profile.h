// SPDX-License-Identifier: Apache-2.0
// The profile of a measurement: where rank 0's time went.
#pragma once

#include "measurement.h"

namespace regroup::tool {

// A table: name, self %, self, total %, total, average, calls.
void print_profile(const Measured& measured);

// "1.23 ms", "4.5 us", "2.1 s".
std::string human_us(double us);

}  // namespace regroup::tool
