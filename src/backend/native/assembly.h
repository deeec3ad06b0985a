// SPDX-License-Identifier: Apache-2.0
// What the native backend keeps for agreements, and for meeting the survivors: written by the control channel's service
// thread, read by whoever waits.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "backend/native/native_backend.h"
#include "membership/council.h"

namespace regroup::backend::native {

struct NativeBackend::Assembly {
  explicit Assembly(const GroupFacts& facts) : council(facts.rank, facts.size) {}

  std::timed_mutex turn;  // one agreement at a time

  std::mutex mutex;  // of what follows; held while frames are sent, never while waiting
  std::condition_variable changed;
  membership::Council council;
  bool open = true;
  bool left_behind = false;
  // Texts for the meeting of the next life, by epoch, stage and rank of this life.
  std::map<std::tuple<uint64_t, uint32_t, Rank>, std::string> texts;
};

}  // namespace regroup::backend::native
