// SPDX-License-Identifier: Apache-2.0
// The conformance suite: every collective × type × operator × edge case on what this machine has. For the command line
// and for tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/item.h"

namespace regroup::conformance {

struct SuiteOptions {
  // As JoinOptions::backend takes them. Besides native, each is tried with fewer wires and ranks unless those are
  // given, and with algorithms of its own choice: what is new in it is how it carries out calls.
  std::vector<std::string> backends = {"native"};
  std::vector<Wire> wires;  // empty: all
  std::vector<Rank> ranks;  // empty: all that the suite knows; others are left out
  uint64_t seed = 1;
  // One item alone, by its name.
  std::optional<Item> only;
  // Round after round with other cases until the time is up; zero: one round.
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  // Groups that run at the same time.
  unsigned at_once = 2;
  size_t slowest = 0;
  // Told now and then: items done, and how many there are.
  std::function<void(uint64_t, uint64_t)> progress;
  // Told of each failure as it is known: the item, the seed, what is wrong.
  std::function<void(const Item&, uint64_t, const std::string&)> failure;
};

struct Summary {
  uint64_t cases = 0, passed = 0, failed = 0, unsupported = 0;
  double seconds = 0;
  std::vector<std::pair<uint32_t, Item>> slowest;  // microseconds; as many as asked for, the slowest first
};

// What one round consists of.
std::vector<Item> items_of_round(const SuiteOptions& options, uint64_t seed);

// Forks; so the caller has no other threads.
Summary run_suite(const SuiteOptions& options);

}  // namespace regroup::conformance
