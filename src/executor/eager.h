// SPDX-License-Identifier: Apache-2.0
// The one hand-written path: operations of so few bytes that every rank's whole input travels with its arrival. Each
// rank publishes its input, waits for all others', and takes what it needs. No plan, no allocation, no second phase:
// nobody reads the caller's buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/execution.h"
#include "transport/transport.h"

namespace regroup::executor {

// What eager execution has to know of an operation. Part sizes are in bytes.
struct EagerCall {
  Collective collective = Collective::barrier;
  Rank rank = 0, size = 1, root = 0;
  uint64_t part_bytes = 0;                  // of each part, where all are equal
  const uint64_t* part_elements = nullptr;  // else: elements of each, `size` of them
  const Binding* binding = nullptr;
};

class Eager {
 public:
  enum class Outcome : uint8_t { waiting, done, conflict };

  // Publishes. `call` and its memory stay until the execution is done or dropped.
  void start(const EagerCall& call, const transport::Signature& signature, uint64_t fingerprint, uint64_t sequence,
             transport::Transport& transport);
  Outcome advance();
  void missing(std::vector<Rank>* ranks) const;

 private:
  void finish();
  void fold(uint64_t offset, uint64_t bytes);
  void put(uint32_t part, Rank from, uint64_t offset, uint64_t bytes);
  uint64_t bytes_of(Rank part) const;
  uint64_t offset_of(Rank part) const;

  EagerCall call_;
  uint64_t fingerprint_ = 0;
  uint64_t sequence_ = 0;
  transport::Transport* transport_ = nullptr;
  Rank next_ = 0;  // the lowest rank whose payload is not there
  bool conflict_ = false;
  std::vector<const void*> payloads_;
};

}  // namespace regroup::executor
