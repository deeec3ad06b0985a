// SPDX-License-Identifier: Apache-2.0
#include "chaos/referee.h"

#include <fmt/format.h>

#include <algorithm>

namespace regroup::tool::chaos {

namespace {

// The members on one side of the fault, a bit each.
uint64_t side(const Scenario& s, bool apart) {
  uint64_t members = 0;
  for (Rank rank = 0; rank < s.ranks; ++rank) {
    if (s.apart[rank] == apart) members |= uint64_t{1} << rank;
  }
  return members;
}

Rank count(uint64_t members) { return static_cast<Rank>(__builtin_popcountll(members)); }

std::string list(uint64_t members) {
  std::string text;
  for (Rank rank = 0; rank < kMostRanks; ++rank) {
    if (members >> rank & 1) text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
  }
  return text.empty() ? "nobody" : text;
}

// What a member must be told, and what comes of its shrink().
struct Due {
  std::vector<StatusCode> codes;  // of the failure
  uint64_t culprits = 0;
  bool some_will_do = false;  // of the culprits: each link of a cut network is noticed by itself
  std::vector<StatusCode> shrink = {StatusCode::ok};
  uint64_t members = 0;  // after shrink
};

Due due_for(const Scenario& s, Rank rank) {
  Due due;
  const uint64_t mine = side(s, s.apart[rank]), others = side(s, !s.apart[rank]);
  due.culprits = others;
  due.members = mine;
  const bool majority = 2 * count(mine) > s.ranks;
  switch (s.fault) {
    case Fault::kill:
      due.codes = {StatusCode::peer_lost};  // that it is dead is known, so all that are left go on
      break;
    case Fault::stop:
    case Fault::resume:
      due.codes = {StatusCode::timeout};
      if (!majority) due.shrink = {StatusCode::no_quorum};
      if (rank != s.victim) break;
      // Whom it takes for late, or that it was left behind: both are true.
      due.codes = {StatusCode::timeout, StatusCode::stale_epoch};
      due.culprits = side(s, true) | side(s, false);
      due.some_will_do = true;
      // Where the others were too few to go on, nobody comes to meet it.
      due.shrink = {StatusCode::stale_epoch};
      if (2 * count(others) <= s.ranks) due.shrink = {StatusCode::timeout, StatusCode::no_quorum};
      break;
    case Fault::partition:
      due.codes = {StatusCode::timeout, StatusCode::peer_lost};
      due.some_will_do = true;
      if (!majority) due.shrink = {StatusCode::no_quorum};
      break;
    case Fault::abort:
      due.codes = {StatusCode::aborted};
      due.culprits = uint64_t{1} << s.victim;
      due.some_will_do = true;
      due.members = side(s, true) | side(s, false);
      break;
    case Fault::slow:
      break;
  }
  return due;
}

void judge_failure(const Scenario& s, const Due& due, const Place& place, std::vector<std::string>* wrong) {
  const Told& told = place.failure;
  if (s.fault == Fault::slow) {
    if (told.any) wrong->push_back(fmt::format("a late rank cost an operation: {}", told.text));
    return;
  }
  if (!told.any) return wrong->push_back(fmt::format("was told nothing in {} operations", place.right));
  const bool fits = std::find(due.codes.begin(), due.codes.end(), told.code) != due.codes.end();
  const bool blames = due.some_will_do ? (told.blamed & ~due.culprits) == 0 : told.blamed == due.culprits;
  if (fits && blames && (told.blamed != 0 || s.fault == Fault::resume || s.fault == Fault::abort)) return;
  wrong->push_back(fmt::format("must be told {} because of {}; was told {} (blames {})", name(due.codes.front()),
                               list(due.culprits), told.text, list(told.blamed)));
}

void judge_shrink(const Due& due, const Place& place, std::vector<std::string>* wrong) {
  if (!place.failure.any) return;
  const Told& shrink = place.shrink;
  if (std::find(due.shrink.begin(), due.shrink.end(), shrink.code) == due.shrink.end()) {
    return wrong->push_back(
        fmt::format("shrink must give {}, gave {}", name(due.shrink.front()), shrink.any ? shrink.text : "nothing"));
  }
  if (shrink.code != StatusCode::ok) return;
  if (place.members != due.members || place.size != count(due.members) || place.epoch < 2) {
    wrong->push_back(fmt::format("after shrink: members {}, size {}, epoch {}; must be members {}", list(place.members),
                                 place.size, place.epoch, list(due.members)));
  }
}

// All that ended an operation well have the same bits.
void judge_fingerprints(const Scenario& s, const Board& board, std::vector<std::string>* wrong) {
  for (uint32_t index = 0; index < kMostOperations; ++index) {
    uint64_t common = 0;
    for (Rank rank = 0; rank < s.ranks; ++rank) {
      const uint64_t one = board.place[rank].fingerprints[index];
      if (common == 0) common = one;
      if (one == 0 || one == common) continue;
      wrong->push_back(fmt::format("operation {}: rank {} has other bits than a rank before it", index, rank));
      return;
    }
  }
}

// Of the survivor that waited the longest, in milliseconds: until `when`, from the fault; or from `earliest`, where
// that came later.
std::optional<double> longest_wait(const Scenario& s, const Board& board, std::atomic<int64_t> Place::*when,
                                   std::atomic<int64_t> Place::*earliest) {
  const int64_t fault = board.fault_at;
  int64_t longest = -1;
  for (Rank rank = 0; rank < s.ranks; ++rank) {
    if (!goes_on(s, rank)) continue;
    const Place& place = board.place[rank];
    const int64_t at = place.*when;
    if (at == 0) return std::nullopt;
    const int64_t from = earliest != nullptr ? std::max<int64_t>(fault, place.*earliest) : fault;
    longest = std::max(longest, at - from);
  }
  if (fault == 0 || longest < 0) return std::nullopt;
  return static_cast<double>(longest) / 1e6;
}

}  // namespace

bool survives(const Scenario& scenario, Rank rank) {
  return rank != scenario.victim || (scenario.fault != Fault::kill && scenario.fault != Fault::stop);
}

bool goes_on(const Scenario& scenario, Rank rank) {
  return survives(scenario, rank) && !(scenario.fault == Fault::resume && rank == scenario.victim);
}

std::vector<std::string> judge(const Scenario& scenario, const Board& board) {
  std::vector<std::string> all;
  for (Rank rank = 0; rank < scenario.ranks; ++rank) {
    const Place& place = board.place[rank];
    std::vector<std::string> wrong;
    if (place.wrong[0] != 0) wrong.emplace_back(place.wrong);
    if (survives(scenario, rank)) {
      const Due due = due_for(scenario, rank);
      judge_failure(scenario, due, place, &wrong);
      judge_shrink(due, place, &wrong);
      if (place.stayed[0] != 0) wrong.push_back(fmt::format("left behind: {}", place.stayed));
    }
    for (const std::string& text : wrong) all.push_back(fmt::format("rank {}: {}", rank, text));
  }
  judge_fingerprints(scenario, board, &all);
  return all;
}

std::optional<double> detected_after(const Scenario& scenario, const Board& board) {
  if (scenario.fault == Fault::slow) return std::nullopt;
  // Who is busy with something else cannot be told before it calls.
  return longest_wait(scenario, board, &Place::failed_at, &Place::called_at);
}

std::optional<double> recovered_after(const Scenario& scenario, const Board& board) {
  if (scenario.fault == Fault::slow || scenario.fault == Fault::partition) return std::nullopt;
  return longest_wait(scenario, board, &Place::recovered_at, nullptr);
}

}  // namespace regroup::tool::chaos
