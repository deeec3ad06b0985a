// SPDX-License-Identifier: Apache-2.0
// The one hand-written path: operations of so few bytes that every rank's whole input is shown with its arrival. Each
// rank shows its input, waits for all others', and takes what it needs. No plan and no allocation. Where the transport
// copied the input, the caller's buffer is not read by anybody and there is no second phase; where it is lent, its
// owner waits until all who read it are through.
//
// Where sizes differ by pair (all_to_all by lists) a rank knows only its own, so each decides for itself whether to
// show its input or to come with a plan, and what the others show decides for all: one plan, and all go on by plan.
// Whether what each gives is what the other takes, all ranks learn alike from the *balance* that each shows beside its
// input: a hash of every pair's size, added by the giver and subtracted by the taker. Only if these do not add up to
// nothing are the sizes themselves looked at.
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
  bool by_pair = false;                     // all_to_all whose sizes differ by pair: those of the bound parts
  bool may_lend = false;                    // the input stays as it is until the operation ends: not in place
  const Binding* binding = nullptr;
};

class Eager {
 public:
  enum class Outcome : uint8_t {
    waiting,
    done,
    conflict,   // ranks called different things, or pairs' sizes differ
    planned,    // some rank's input is too long to be shown: the operation is to be opened as a planned one
    withdrawn,  // a peer took back what it had lent: its failure is its own to tell
  };

  // Publishes. `call` and its memory stay until the execution is done or dropped.
  void start(const EagerCall& call, const transport::Signature& signature, uint64_t fingerprint, uint64_t sequence,
             transport::Transport& transport);
  Outcome advance();
  void missing(std::vector<Rank>* ranks) const;
  // After `withdrawn`: who took its input back.
  Rank lost_rank() const { return lost_rank_; }

 private:
  bool reads(Rank reader, Rank owner) const;
  bool look(Rank rank, transport::EagerInput* input) const;
  uint64_t own_balance() const;
  bool inputs_count();
  void take();
  void fold(uint64_t offset, uint64_t bytes);
  void take_pair(Rank from);
  void put(uint32_t part, Rank from, uint64_t offset, uint64_t bytes);
  uint64_t bytes_of(Rank part) const;
  uint64_t offset_of(Rank part) const;

  EagerCall call_;
  uint64_t fingerprint_ = 0;
  uint64_t sequence_ = 0;
  transport::Transport* transport_ = nullptr;
  Rank next_ = 0;  // the lowest rank whose input is not there
  bool conflict_ = false;
  bool planned_ = false;
  uint64_t balance_ = 0;  // of those that have come
  bool taken_ = false;    // this rank has what it needs
  bool lends_ = false;    // its own input is lent
  bool borrows_ = false;  // it reads a lent input
  Rank reader_ = 0;       // the lowest rank that may still read this one's input
  Rank lost_rank_ = plan::kNoRank;
  std::vector<const void*> inputs_;
  std::vector<uint8_t> lent_;
};

}  // namespace regroup::executor
