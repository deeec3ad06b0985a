// SPDX-License-Identifier: Apache-2.0
// Runs the schedules of all ranks on concrete values, in one random order that a transport might bring about, and
// compares with what the collective means. It proves nothing; it is there to check the verifier itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "verify/verifier.h"

namespace regroup::verify {

// Schedules must have the structure and the matches that the verifier asks for. Empty if all went well, else what went
// wrong: "rank 2 did not get …". Different seeds give different orders, values and ways in which sends complete.
std::string interpret(const Member& member, std::span<const plan::Schedule> schedules, uint64_t seed);

}  // namespace regroup::verify
