// SPDX-License-Identifier: Apache-2.0
// What the ranks' memories hold when all steps are done, and whether it is what the collective promises.
#pragma once

#include <vector>

#include "verify/expression.h"
#include "verify/memory.h"
#include "verify/subject.h"

namespace regroup::verify {

struct Outcome {
  std::vector<Memory> memories;          // a rank
  std::vector<Expressions> expressions;  // an operation of the batch
};

// "element 3 of rank 1's input"
std::string describe(const Expressions& expressions, const Value& value);

void check_outcome(const Subject& subject, Outcome& outcome, Findings& findings);

}  // namespace regroup::verify
