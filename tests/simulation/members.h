// SPDX-License-Identifier: Apache-2.0
// Members of a group that agree, leave and shrink, through several lives: the council and the rebirth machine that
// ship, on a virtual clock, over simulated control connections. Everything that chance decides comes from one seed:
// when each calls, how long messages take (in order between two members of a life, in any order otherwise), who dies
// (at some time, or after some message that it sends or handles), stops and goes on, who is cut off from whom, when
// each hears of it. News of a death may overtake the last messages of the dead.
//
// What must hold is checked at every step; see Members::violation.
#pragma once

#include <cstdint>
#include <string>

#include "regroup/survival.h"
#include "regroup/types.h"

namespace regroup::simulation {

// Deliberate faults of the protocol, to see whether the simulation notices.
enum class Plant : uint8_t {
  none,
  forgets_promise,      // accepts a lower ballot than it has promised
  does_not_ask,         // a new leader proposes its own before it has heard what was accepted
  unreachable_is_dead,  // whoever is cut off is taken for dead
  half_is_enough,       // half of all members are a quorum
  no_second_agreement,  // whoever has met the others goes on at once
  late_contribution,    // what comes after the proposal is put into it
  forgets_acceptance,   // a promise does not tell what was accepted
};

enum class Trouble : uint8_t {
  none,
  kills,       // and nothing else: all survivors must finish
  stops,       // and kills
  partitions,  // and stops, and kills
};

struct MembersResult {
  std::string failure;  // empty: all was as it must be
  std::string text;     // what this run is
  uint64_t messages = 0;
  uint64_t decisions = 0;
  uint64_t kills = 0;
  uint64_t reborn = 0;       // shrinks that came to a next life
  uint64_t no_quorum = 0;    // members that ended so
  uint64_t left_behind = 0;  // likewise
};

MembersResult run_members(uint64_t seed, Trouble trouble, Plant plant = Plant::none);

}  // namespace regroup::simulation
