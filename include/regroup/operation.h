// SPDX-License-Identifier: Apache-2.0
// Operations are values: made here, run by a ProcessGroup. They hold views of memory and no state; the same value may
// be run again. Every rank of the group passes the same collective, type, operator, root and sizes (where sizes may
// differ by pair, what one gives another must take).
//
// Buffers: `size` is the number of ranks. Where an operation takes a part for each rank, that is either a list of
// `size` buffers (of any sizes, empty ones too), or one buffer cut by `counts` (elements, one number a rank), or one
// buffer cut into equal parts. All buffers of one operation have one type.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "regroup/buffer.h"
#include "regroup/types.h"

namespace regroup {

struct CallOptions {
  // From the call to its end; the group's time-out where unset. Any std::chrono duration.
  std::optional<std::chrono::nanoseconds> timeout;
  // Fold strictly in rank order: the same bits from any algorithm and transport. The same on all ranks.
  bool reproducible = false;
  // All or nothing: where the operation fails for any member, outputs hold what they held before, on all members of the
  // next life, and all of them are told that it failed. Costs a copy of the outputs and an agreement; `run` only, not
  // for send and receive. The same on all ranks.
  bool atomic = false;
  // The name of an algorithm (`regroup plan` lists them) instead of the selected one. The same on all ranks.
  std::string algorithm;
  // A name for messages and recordings.
  std::string label;
};

using Counts = std::vector<uint64_t>;

struct Operation {
  Collective collective = Collective::barrier;
  ReduceOp op;
  Rank peer = 0;     // root, or the other side of send and receive
  uint32_t tag = 0;  // send, receive, receive_any
  From inputs;
  Into outputs;
  bool in_place = false;           // `outputs` alone is given and is read first
  Counts counts;                   // of the parts; all_to_all: of what is sent
  Counts receive_counts;           // all_to_all
  Rank* source = nullptr;          // receive_any: whose message it was
  std::vector<Operation> members;  // batch
  CallOptions options;
  // Keeps the memory alive until the operation has ended; empty where the caller does.
  std::shared_ptr<const void> owner;

  Operation&& owned_by(std::shared_ptr<const void> keep) && {
    owner = std::move(keep);
    return std::move(*this);
  }
};

// Returns when all ranks have called it.
Operation barrier(CallOptions options = {});

// Every rank gets the root's elements.
Operation broadcast(InPlace buffer, Rank root, CallOptions options = {});
Operation broadcast(From input, Into output, Rank root, CallOptions options = {});

// Element-wise over all ranks; the result at every rank. Bit-identical on all ranks.
Operation all_reduce(InPlace buffer, ReduceOp op = ReduceOp::sum, CallOptions options = {});
Operation all_reduce(From input, Into output, ReduceOp op = ReduceOp::sum, CallOptions options = {});

// The same with the result at the root only. Elsewhere the buffer is only read, and no output is needed.
Operation reduce(InPlace buffer, ReduceOp op, Rank root, CallOptions options = {});
Operation reduce(From input, Into output, ReduceOp op, Rank root, CallOptions options = {});
Operation reduce(From input, ReduceOp op, Rank root, CallOptions options = {});

// output part r ← rank r's input. In place: the rank's own part is already there.
Operation all_gather(From input, Into outputs, CallOptions options = {});
Operation all_gather(From input, Into output, Counts counts, CallOptions options = {});
Operation all_gather(InPlace outputs, CallOptions options = {});
Operation all_gather(InPlace output, Counts counts, CallOptions options = {});

// The same at the root only. Elsewhere no output is needed. `counts`, if given, must be given on every rank.
Operation gather(From input, Into outputs, Rank root, CallOptions options = {});
Operation gather(From input, Into output, Counts counts, Rank root, CallOptions options = {});
Operation gather(From input, Rank root, CallOptions options = {});
Operation gather(From input, Counts counts, Rank root, CallOptions options = {});
Operation gather(InPlace outputs, Rank root, CallOptions options = {});
Operation gather(InPlace output, Counts counts, Rank root, CallOptions options = {});

// output ← the root's input part `rank`. In place at the root: its own part stays where it is.
Operation scatter(From inputs, Into output, Rank root, CallOptions options = {});
Operation scatter(From input, Into output, Counts counts, Rank root, CallOptions options = {});
Operation scatter(Into output, Rank root, CallOptions options = {});
Operation scatter(Into output, Counts counts, Rank root, CallOptions options = {});
Operation scatter(InPlace inputs, Rank root, CallOptions options = {});
Operation scatter(InPlace input, Counts counts, Rank root, CallOptions options = {});

// output ← the reduction of all ranks' input part `rank`. In place: the result replaces that part, the others stay.
Operation reduce_scatter(From inputs, Into output, ReduceOp op = ReduceOp::sum, CallOptions options = {});
Operation reduce_scatter(From input, Into output, Counts counts, ReduceOp op = ReduceOp::sum, CallOptions options = {});
Operation reduce_scatter(InPlace inputs, ReduceOp op = ReduceOp::sum, CallOptions options = {});
Operation reduce_scatter(InPlace input, Counts counts, ReduceOp op = ReduceOp::sum, CallOptions options = {});

// output part r ← rank r's input part `rank`. In place: part r is sent to rank r and then replaced by what rank r sent,
// which must be as long.
Operation all_to_all(From inputs, Into outputs, CallOptions options = {});
Operation all_to_all(From input, Into output, Counts send_counts, Counts receive_counts, CallOptions options = {});
Operation all_to_all(InPlace buffers, CallOptions options = {});
Operation all_to_all(InPlace buffer, Counts counts, CallOptions options = {});

// Between two ranks, matched by (peer, tag) in the order of the calls; to oneself too. Independent of the collectives'
// order.
Operation send(From buffer, Rank to, uint32_t tag = 0, CallOptions options = {});
Operation receive(Into buffer, Rank from, uint32_t tag = 0, CallOptions options = {});
// From whichever rank comes first; `*source`, if given, says who it was.
Operation receive_any(Into buffer, Rank* source, uint32_t tag = 0, CallOptions options = {});

// All members at once, as one operation: collectives are fused into one plan, sends and receives run beside them.
// All-or-nothing checks: a wrong member refuses the whole batch, and so does memory that one member writes and another
// reads or writes. The members' own options are not looked at.
Operation batch(std::vector<Operation> members, CallOptions options = {});

}  // namespace regroup
