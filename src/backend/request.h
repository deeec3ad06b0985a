// SPDX-License-Identifier: Apache-2.0
// A checked request: what src/group makes of an Operation once its arguments are known to be right, and what backends
// run. It holds views of the caller's memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "regroup/types.h"
#include "transport/memory.h"

namespace regroup::backend {

struct Request {
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op;
  Rank root = 0;  // or the other side of send and receive
  uint32_t tag = 0;
  Rank* source = nullptr;  // receive_any
  bool in_place = false;
  bool reproducible = false;
  bool atomic = false;
  bool counts_known = false;  // gather, scatter: `counts` is given on every rank
  // Elements: of the vector (broadcast, reduce, all_reduce, send, receive), of each part where all are equal (`equal`),
  // of this rank's own part (gather, scatter).
  uint64_t count = 0;
  bool equal = false;  // parts of one size, cut from one buffer, on every rank
  // Elements by part where they are not `equal`; see plan::Problem.
  std::vector<uint64_t> counts;
  std::vector<uint64_t> receive_counts;

  transport::SpaceMemory input;
  transport::SpaceMemory output;
  std::vector<transport::Segment> input_list;   // what input.list points to, if anything
  std::vector<transport::Segment> output_list;  // likewise

  std::vector<Request> members;  // batch

  std::chrono::nanoseconds timeout{0};
  std::string algorithm;
  std::string label;
  std::shared_ptr<const void> owner;  // keeps the caller's memory alive

  Request() = default;
  Request(Request&&) = default;  // the lists' addresses stay
  Request& operator=(Request&&) = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
};

}  // namespace regroup::backend
