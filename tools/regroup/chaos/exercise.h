// SPDX-License-Identifier: Apache-2.0
// Runs collectives on one rank and checks all that they touch: the results, the inputs, the gaps around the buffers;
// and, once an operation has failed, that nobody writes its memory any more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/arena.h"
#include "conformance/case.h"
#include "regroup/group.h"
#include "regroup/memory.h"

namespace regroup::tool::chaos {

class Exercise {
 public:
  // With room for operations whose larger side has `most_bytes` bytes.
  explicit Exercise(uint64_t most_bytes);

  struct Outcome {
    Status status;
    std::string wrong;         // empty: everything is as `status` promises
    uint64_t fingerprint = 0;  // of a result that all ranks must have alike; 0: there is none
    int64_t called_at = 0;     // when everything was prepared
    int64_t ended_at = 0;      // before anything was checked
  };
  Outcome run(ProcessGroup& group, const conformance::Case& c, uint64_t values);

  // Writes a pattern over all memory; later, whether it is still there. Empty, or what was written.
  void paint();
  std::string fresh_paint() const;

 private:
  std::vector<std::byte> ordinary_bytes_;
  Allocation allocation_;
  conformance::Arena ordinary_, allocated_;
};

}  // namespace regroup::tool::chaos
