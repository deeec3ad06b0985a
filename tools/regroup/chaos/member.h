// SPDX-License-Identifier: Apache-2.0
// One rank of one run, in a process of its own: joins, works until it is told of the fault, goes on with who is left,
// leaves. It writes down what it sees and judges only values; whether it was told the right thing, the referee says.
#pragma once

#include <string>

#include "chaos/board.h"
#include "chaos/scenario.h"

namespace regroup::tool::chaos {

// The exit status of the process: 0 if it came to its end, whatever it saw. `lifeline` reads as ended when the parent
// has no more use for a victim's child.
int play(const Scenario& scenario, Rank rank, Board& board, const std::string& store_url, int lifeline);

}  // namespace regroup::tool::chaos
