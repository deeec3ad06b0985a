// SPDX-License-Identifier: Apache-2.0
// What every member must have seen in a run, given what happened; and how long it took. Looks only at what the members
// wrote down.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chaos/board.h"
#include "chaos/scenario.h"

namespace regroup::tool::chaos {

// Members that take part to the end: all but one that was killed, or stopped for good.
bool survives(const Scenario& scenario, Rank rank);
// Those of them of whom the run's end waits before a stopped rank is continued: all but it.
bool goes_on(const Scenario& scenario, Rank rank);

// Everything that is not as it must be, a line each.
std::vector<std::string> judge(const Scenario& scenario, const Board& board);

// Milliseconds from the fault to the last survivor's error, and to the end of the last survivor's first operation in
// the next life; nothing where that is not what this fault leads to.
std::optional<double> detected_after(const Scenario& scenario, const Board& board);
std::optional<double> recovered_after(const Scenario& scenario, const Board& board);

}  // namespace regroup::tool::chaos
