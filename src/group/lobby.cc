// SPDX-License-Identifier: Apache-2.0
#include "group/lobby.h"

#include <algorithm>
#include <sstream>

namespace regroup::group {

Result<Invitation> Lobby::ask(std::chrono::nanoseconds timeout) {
  const Result<int64_t> ticket = store_.add(prefix_ + "asked", 1);
  if (!ticket.ok()) return ticket.status();
  const std::string key = prefix_ + "ticket/" + std::to_string(ticket.value());
  const auto text = store_.get(key, timeout);
  if (!text.ok()) {
    if (text.status().code() != StatusCode::timeout) return text.status();
    return Status(StatusCode::timeout, "joining \"" + name_ + "\" as a newcomer: no member called grow() within " +
                                           std::to_string(timeout / std::chrono::milliseconds(1)) + " ms");
  }
  Invitation invitation;
  std::istringstream words(text.value());
  words >> invitation.rank >> invitation.size;
  std::getline(words >> std::ws, invitation.meeting);
  if (words.fail() || invitation.rank >= invitation.size)
    return Status(StatusCode::io_error, "joining as a newcomer: \"" + text.value() + "\" is no invitation");
  (void)store_.delete_key(key);
  return invitation;
}

Result<uint64_t> Lobby::waiting() {
  const Result<int64_t> asked = store_.add(prefix_ + "asked", 0);
  if (!asked.ok()) return asked.status();
  const Result<int64_t> invited = store_.add(prefix_ + "invited", 0);
  if (!invited.ok()) return invited.status();
  return static_cast<uint64_t>(std::clamp<int64_t>(asked.value() - invited.value(), 0, kMostAtOnce));
}

Status Lobby::invite(const std::string& meeting, Rank members, Rank newcomers) {
  // Counted first: whom this invitation does not reach is not invited again, and asks anew.
  const Result<int64_t> invited = store_.add(prefix_ + "invited", newcomers);
  if (!invited.ok()) return invited.status();
  for (Rank i = 0; i < newcomers; ++i) {
    const int64_t ticket = invited.value() - newcomers + 1 + i;
    const std::string text = std::to_string(members + i) + ' ' + std::to_string(members + newcomers) + ' ' + meeting;
    if (Status status = store_.set(prefix_ + "ticket/" + std::to_string(ticket), text); !status.ok()) return status;
  }
  return Status();
}

}  // namespace regroup::group
