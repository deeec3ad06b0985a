// SPDX-License-Identifier: Apache-2.0
// One rank's part in one case of a collective: its buffers, the operation over them, and whether they hold afterwards
// what they must. Knows what each collective means, and nothing of how the library does it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/arena.h"
#include "conformance/case.h"
#include "conformance/values.h"
#include "regroup/operation.h"

namespace regroup::conformance {

class Attempt {
 public:
  Attempt(const Case& c, Rank rank, Arena& ordinary, Arena& allocated);

  // Writes this round's inputs, and rubbish into what must be overwritten. Another seed, other values.
  void prepare(uint64_t seed);
  // The same value serves for every round.
  Operation operation(const CallOptions& options) const;
  // Empty if every element is right and nothing else was touched; else what is wrong.
  std::string verify();
  // Of the inputs alone, which a call that failed must not have changed either.
  std::string check_inputs() const;
  // Of the result's bits where all ranks must have the same; 0 elsewhere.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Part {
    std::byte* data = nullptr;
    uint64_t count = 0;
  };
  using Parts = std::vector<Part>;

  bool at_root() const { return rank_ == root_; }
  std::vector<uint64_t> input_counts() const;
  std::vector<uint64_t> output_counts() const;
  Parts take(const std::vector<uint64_t>& counts, bool outputs, Arena& ordinary, Arena& allocated) const;
  Arena& choose(bool outputs, uint64_t part, Arena& ordinary, Arena& allocated) const;

  Buffer whole(const Parts& parts) const;
  std::vector<Buffer> list(const Parts& parts) const;
  Operation unparted(const CallOptions& options) const;
  Operation gathering(const CallOptions& options) const;
  Operation scattering(const CallOptions& options) const;
  Operation exchanging(const CallOptions& options) const;

  // Whether this rank gets a result; if not, a buffer for it must keep its rubbish.
  bool writes_output() const;
  // Writes what output part `part` must hold.
  void expect(uint64_t part, uint64_t first, uint64_t count, void* to) const;
  bool overwritten(uint64_t input_part) const;
  std::string check_output(uint64_t part) const;

  Case case_;
  Rank rank_;
  Rank root_;
  bool in_place_;
  Form form_;
  ReduceOp op_;
  ValueRule rule_;
  Parts inputs_, outputs_;
  Counts input_counts_, output_counts_;
  std::vector<std::byte> shadow_;  // what the inputs held before the call, part after part
  std::byte rubbish_{};
  uint64_t fingerprint_ = 0;
};

}  // namespace regroup::conformance
