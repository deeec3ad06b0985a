// SPDX-License-Identifier: Apache-2.0
// Runs one program over a transport: a state machine that `advance` moves as far as it goes. It never blocks, reads no
// clock, has no thread (but shares large blocks with the team that it is given), and allocates only in `start` and
// where its memory has to grow. It does not know what collective it runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/program.h"
#include "executor/team.h"
#include "transport/transport.h"

namespace regroup::executor {

// One member of an operation: where its elements are and how they are folded.
struct Binding {
  transport::MemberMemory memory;
  transport::Folding folding;  // `fold` is nullptr where nothing is reduced
};

class Execution {
 public:
  enum class Outcome : uint8_t {
    waiting,     // nothing to do until something arrives
    moved,       // something was done; call again
    done,        // all steps are done
    mismatched,  // a message did not fit: `mismatch()`
    lost,        // a peer's memory cannot be read: `lost_rank()`
    withdrawn,   // a peer took its memory back: its failure is `lost_rank()`'s to tell
  };

  // Begins. `program` and the bindings' memory stay where they are until the execution is done or cancelled. `team`
  // (nullptr: there is none) works with the caller of `advance`, and only before it returns.
  void start(const Program& program, std::span<const Binding> bindings, transport::Transport& transport,
             uint64_t sequence, uint64_t fingerprint, Team* team = nullptr);
  Outcome advance();
  // Gives everything back: after it returns nothing is read or written on behalf of this execution.
  void cancel();

  const transport::Message& mismatch() const { return *mismatch_; }
  Rank lost_rank() const { return lost_rank_; }
  // Ranks that unfinished steps wait for, in no order, perhaps repeated.
  void waiting_for(std::vector<Rank>* ranks) const;

 private:
  enum class Try : uint8_t { done, later, failed };

  Try run(plan::StepIndex index);
  bool look_at_marks();
  bool look_at_messages();
  Try poll(plan::StepIndex index);
  void complete(plan::StepIndex index, std::vector<plan::StepIndex>* ready);
  void copy(const plan::Step& step);
  void reduce(const plan::Step& step);
  Try get(const plan::Step& step);
  Try get_reduce(const plan::Step& step);
  Try unreadable(Rank rank);
  Rank fold_block(const plan::Step& step, uint64_t done, uint64_t* folded);
  Rank fold_together(const plan::Step& step, uint64_t done, uint64_t* folded);
  bool read_together(Rank rank, uint64_t address, std::byte* to, uint64_t bytes);
  bool fetch(const plan::Source& source, uint16_t member, uint64_t skip, std::byte* to, uint64_t bytes);
  Try post(const plan::Step& step, plan::StepIndex index);
  void bind_messages();
  uint64_t element_bytes(uint16_t member) const { return bindings_[member].memory.element_bytes; }
  const transport::SpaceMemory& space(uint16_t member, plan::Space which) const {
    return bindings_[member].memory.spaces[static_cast<size_t>(which)];
  }

  const Program* program_ = nullptr;
  std::span<const Binding> bindings_;
  transport::Transport* transport_ = nullptr;
  uint64_t sequence_ = 0;
  uint64_t fingerprint_ = 0;
  Team* team_ = nullptr;  // nullptr: the operation is not worth one

  std::vector<uint32_t> waits_;         // by step: steps that it still waits for
  std::vector<plan::StepIndex> ready_;  // a queue: [next_ready_, end)
  size_t next_ready_ = 0;
  std::vector<plan::StepIndex> urgent_;  // a stack: what a mark made ready
  std::vector<plan::StepIndex> active_;  // begun, polled until done: messages
  std::vector<plan::StepIndex> awaits_;  // likewise: marks
  size_t left_ = 0;                      // steps not done
  std::vector<transport::Message> messages_;
  std::vector<transport::Segment> segments_;  // of messages with more than one piece
  std::vector<transport::Folding> foldings_;  // of receive_reduce steps: by member, then the same with the finish
  std::vector<const void*> operands_;
  std::vector<std::byte> staging_;  // blocks read from peers before they are folded
  // Of each thread of the team, for the piece that it folds.
  struct Lane {
    std::vector<const void*> operands;
    std::vector<std::byte> staging;
  };
  std::vector<Lane> lanes_;
  std::vector<transport::Located> operands_together_;
  const transport::Message* mismatch_ = nullptr;
  Rank lost_rank_ = plan::kNoRank;
  bool was_withdrawn_ = false;
  bool stream_ = false;  // copies go past the caches
};

}  // namespace regroup::executor
