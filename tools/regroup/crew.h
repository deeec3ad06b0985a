// SPDX-License-Identifier: Apache-2.0
// The processes of one contender: forked ranks of this program, or what a peer's launcher starts.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "contest/board.h"

namespace regroup::tool {

class Crew {
 public:
  Crew() = default;
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Forks a child for each rank, which calls `body` and exits with what it returns. False if the system refuses.
  bool fork_ranks(Rank ranks, const std::function<int(Rank)>& body);
  // Starts `launcher ranks cores`; what it prints goes to `log`, `contest` into its REGROUP_CONTEST.
  bool launch(const std::filesystem::path& launcher, Rank ranks, const std::string& contest,
              const std::filesystem::path& folder);

  // Takes note of processes that have ended. True if one of them failed; `*why` then says how.
  bool failed(std::string* why);
  bool running() const;
  // Ends it: patiently, then by force.
  void end();

 private:
  std::vector<pid_t> pids_;  // 0: ended
  bool launched_ = false;
  std::filesystem::path log_;
};

// Where the launcher of a peer's driver is in this build, whether or not it is there.
std::filesystem::path launcher_of(const std::string& peer);

}  // namespace regroup::tool
