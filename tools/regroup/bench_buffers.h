// SPDX-License-Identifier: Apache-2.0
// The buffers of one rank of a measurement: made once for the largest size, cut anew for each.
#pragma once

#include <cstdint>
#include <vector>

#include "conformance/values.h"
#include "measurement.h"
#include "regroup/memory.h"
#include "regroup/operation.h"

namespace regroup::tool {

class BenchBuffers {
 public:
  // False: not enough memory (`problem()`).
  bool make(const Measurement& what, Rank rank, uint64_t most_bytes);
  const std::string& problem() const { return problem_; }

  // Another size: new values, and what they must lead to.
  void resize(uint64_t bytes);
  Operation operation() const;
  // Before each call.
  void write_inputs();
  // After it: whether every output element is right.
  bool right() const;

 private:
  bool at_root() const { return !has_root(what_->call.collective) || rank_ == what_->call.root; }
  uint64_t input_parts() const;
  uint64_t output_parts() const;
  std::byte* take(uint64_t bytes);
  Buffer buffer(std::byte* data, uint64_t parts) const { return {data, what_->call.type, parts * part_}; }
  std::vector<Buffer> list(std::byte* data, uint64_t parts) const;
  void expect();

  const Measurement* what_ = nullptr;
  Rank rank_ = 0;
  std::string problem_;
  uint64_t part_ = 0;  // elements of a part (or of the vector)
  conformance::ValueRule rule_;
  std::vector<Allocation> allocations_;
  std::vector<std::vector<std::byte>> ordinary_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;      // in place: the same
  std::vector<std::byte> pristine_;  // what inputs are written from
  std::vector<std::byte> expected_;
};

}  // namespace regroup::tool
