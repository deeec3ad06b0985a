// SPDX-License-Identifier: Apache-2.0
// What a rank called: compared between ranks before data counts, and printed when they disagree. Plain data, fixed
// size, so that it can lie in shared memory and travel in frames.
#pragma once

#include <cstdint>
#include <string>

#include "regroup/types.h"

namespace regroup::transport {

struct Signature {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  uint8_t flags = 0;          // options that must agree: see below
  Rank root = 0;              // 0 for collectives without one
  uint64_t count = 0;         // elements, where all ranks must name the same number; 0 where sizes may differ by pair
  uint64_t counts_hash = 0;   // of the counts of all parts, where all ranks know them; else 0
  uint64_t factor_bits = 0;   // premultiplied_sum: the factor's bits
  uint64_t options_hash = 0;  // algorithm asked for, members of a batch

  static constexpr uint8_t kReproducible = 1, kCountsKnown = 2, kAtomic = 4;

  friend bool operator==(const Signature&, const Signature&) = default;
};
static_assert(sizeof(Signature) == 40);

// 64 bits that differ where signatures differ (but for one chance in 2^64). Never 0.
uint64_t fingerprint(const Signature& signature);

// "all_reduce of 1000 float32 by sum", "broadcast of 5 int64 from root 2".
std::string to_string(const Signature& signature);

}  // namespace regroup::transport
