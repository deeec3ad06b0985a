// SPDX-License-Identifier: Apache-2.0
// Puts planners to the proof: every algorithm, over a range of group sizes, on every case of cases.h, and random
// batches of them. What `regroup verify` prints.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "base/clock.h"
#include "verify/verifier.h"

namespace regroup::verify {

struct SuiteResult {
  uint64_t sets = 0;       // proofs: a case is proved out of place and, where the algorithm says so, in place
  uint64_t schedules = 0;  // in these sets: one a rank
  uint64_t steps = 0;
  uint64_t proved = 0;  // sets
  uint64_t failed = 0;  // sets
  double seconds = 0;
  bool complete = true;  // false if the deadline came first
  // Of the first failures, in no particular order: the case and its findings, for people.
  std::vector<std::string> failures;
};

struct SuiteOptions {
  std::span<const algorithms::Algorithm> algorithms;
  unsigned threads = 2;
  base::Time deadline = base::Time::max();
  uint32_t batches = 8;       // random mixes of these algorithms, for each group size
  size_t most_failures = 16;  // of which the text is kept
  // Called now and then, with what there is so far, by one thread at a time.
  std::function<void(const SuiteResult& so_far)> progress;
};

// What an algorithm promises, to hold it to.
Member expectation(const algorithms::Algorithm& algorithm, std::span<const plan::Problem> problems, bool in_place);
Options expectation(const algorithms::Algorithm& algorithm);

// Group sizes `first` to `last`, both included; the smaller ones first.
SuiteResult run_suite(Rank first, Rank last, const SuiteOptions& options);

}  // namespace regroup::verify
