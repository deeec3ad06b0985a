// SPDX-License-Identifier: Apache-2.0
// The problems on which planners are put to the proof: for a number of ranks, all the roots, counts, blocks and
// distributions over hosts at which planners are wont to go wrong.
#pragma once

#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "plan/problem.h"

namespace regroup::verify {

struct Case {
  std::string text;                     // "7 ranks, root 3, counts one-heavy, block 2, uneven hosts"
  std::vector<plan::Problem> problems;  // one a rank
  bool in_place_possible = true;        // input and output can share memory
};

// Calls `visit` for every case of `algorithm` that fits it. Cases come in a fixed order.
void for_each_case(const algorithms::Algorithm& algorithm, Rank size, const std::function<void(const Case&)>& visit);

// One operation of a batch.
struct BatchMember {
  const algorithms::Algorithm* algorithm = nullptr;
  Case test_case;
  bool in_place = false;
};

// Two to five operations by any of the algorithms, all on the same hosts.
std::vector<BatchMember> random_batch(std::span<const algorithms::Algorithm> algorithms, Rank size,
                                      std::mt19937_64& random);

// All schedules of a case, one a rank.
std::vector<plan::Schedule> plan_all(const algorithms::Algorithm& algorithm, const Case& test_case);
std::vector<plan::Schedule> plan_all(std::span<const BatchMember> batch);

}  // namespace regroup::verify
