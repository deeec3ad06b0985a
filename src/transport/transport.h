// SPDX-License-Identifier: Apache-2.0
// The seam between wires. A transport moves bytes among the members of one group in one epoch: messages between any
// two, and, where it offers them, reads of a peer's memory. It knows nothing of schedules, backends or what the bytes
// mean.
//
// Threads: one driver at a time calls everything here; only `read` may be called by several. Nothing blocks except
// Waker::sleep (net/waker.h), which the driver calls between `prepare_sleep` and `woke`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/schedule.h"
#include "regroup/status.h"
#include "transport/memory.h"
#include "transport/message.h"
#include "transport/signature.h"

namespace regroup::transport {

// How a rank opens a collective operation: what it called, and where its memory lies so that peers can read it. The
// views stay valid until `end`.
struct Opening {
  uint64_t sequence = 0;  // from 1, rises by one with each operation of the group
  Signature signature;
  // Empty where nobody reads a peer's memory in this operation: on all ranks or on none.
  std::span<const MemberMemory> members;
  // Whether this rank could copy the operation's data through scratch instead of reading peers' memory.
  bool may_stage = false;
  // Sizes that may differ by pair (all_to_all; gather and scatter without agreed counts): bytes this rank will give to
  // and take from each rank; empty where sizes follow from the signature.
  std::span<const uint64_t> gives;
  std::span<const uint64_t> takes;
};

enum class Gathering : uint8_t { waiting, complete, conflict, failed };

// Two ranks that called different things at the same sequence.
struct Conflict {
  std::vector<Rank> differ;  // the ranks that are not of one mind with the most; those that are known
  Rank first = 0, second = 0;
  Signature first_signature, second_signature;
  bool second_known = true;  // whether `second_signature` is; `first_signature` always is
  // Where the signatures agree and a pair's sizes do not: what `first` gives, what `second` takes.
  bool sizes = false;
  uint64_t gives = 0, takes = 0;
};

// A contiguous piece of a peer's memory: directly readable at `mapped`, or (mapped == nullptr) by Transport::read.
struct Located {
  const std::byte* mapped = nullptr;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// A rank's input to an eager operation: the whole, or, where sizes differ by pair, what it gives to this rank.
struct EagerInput {
  const std::byte* data = nullptr;  // copies stay until this rank begins the operation after the next
  uint64_t fingerprint = 0;
  uint64_t balance = 0;  // where sizes differ by pair: the owner's word
  bool planned = false;  // where sizes differ by pair: its owner has opened the operation by `begin`, and shows none
  // The owner's own memory: to be read as by `locate`, inside a Reading and with a look at `counts` afterwards.
  bool lent = false;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "shm", "tcp", "sim", "mixed"

  // Whether this rank reads `peer`'s memory one-sidedly (and the reverse: it is symmetric). Known to all ranks alike.
  virtual bool one_sided(Rank peer) const = 0;

  // --- a collective operation, one at a time: begin, poll gathered until complete, steps, end.
  virtual void begin(const Opening& opening) = 0;
  // Whether every rank that this one reads one-sidedly has begun the operation and all of them called the same.
  // Message-only peers are not waited for: their disagreement shows in frames. `conflict` also when a frame told so.
  virtual Gathering gathered(Conflict* conflict) = 0;
  // After `complete`: whether all ranks can stage this operation and some rank wants it, because its memory is not
  // mapped by peers. The same on all ranks.
  virtual bool staging() const { return false; }
  // The operation is over for this rank; its views are no longer valid.
  virtual void end() = 0;
  // Marks the operation withdrawn: nothing that a peer reads of this rank's memory from now on counts. Before an error
  // is returned to the caller.
  virtual void withdraw() = 0;

  // --- one-sided steps, between gathered() == complete and end()
  // Around each block that is read, `locate` and `counts` included: a rank of this process that withdraws waits until
  // nobody is between the two, since its memory may be freed and unmapped right after.
  virtual void begin_reading() {}
  virtual void end_reading() {}
  virtual Located locate(Rank peer, uint16_t member, plan::Space space, uint32_t part, uint64_t offset,
                         uint64_t bytes) = 0;
  // Copies from a peer's memory that is not mapped. False: the peer is gone or refuses. The only call that the driver's
  // team makes, too, many at a time and all inside one reading of the driver's.
  virtual bool read(Rank peer, uint64_t address, std::byte* to, uint64_t bytes) = 0;
  // After a block was read: whether it counts. False once the peer has withdrawn the current operation.
  virtual bool counts(Rank peer) = 0;
  virtual void notify(plan::Mark mark) = 0;
  virtual bool notified(Rank peer, plan::Mark mark) = 0;
  // Memory that peers can read directly, for scratch; at least `bytes`, 64-byte aligned; the same pages from call to
  // call where possible. nullptr: there is none to be had. Valid until the next call.
  virtual std::byte* scratch(uint64_t bytes) = 0;

  // --- messages
  virtual void post_send(Message& message) = 0;
  virtual void post_receive(Message& message) = 0;
  // After it returns, the transport no longer touches the message or its memory. State becomes `cancelled` unless
  // finished.
  virtual void cancel(Message& message) = 0;
  // A receive from any rank: the lowest rank from which a pairwise message of this tag and of the right key has arrived
  // or been announced; kNoRank: none yet. `sequences[r]`: the pairwise sequence expected from rank r.
  virtual Rank announced(uint32_t tag, std::span<const uint64_t> sequences) = 0;

  // Moves what can be moved. True if anything did.
  virtual bool progress() = 0;

  // --- sleeping: returns false if there is something to do after all.
  virtual bool prepare_sleep() = 0;
  virtual void woke() = 0;

  // --- eager: operations of few bytes, whose whole input is shown with the arrival: copied, or lent. 0: not offered.
  virtual uint64_t eager_limit() const { return 0; }
  // The same for `begin_pairs`: of all that a rank gives to others, and sizeof(uint32_t) for each rank.
  virtual uint64_t pairs_limit() const { return 0; }
  // Begins an operation and shows `payload`. Where `may_lend`, the transport may leave it where it is instead of
  // copying it, and returns true: then it must stay as it is until every reader has notified kDone.
  virtual bool begin_eager(uint64_t sequence, const Signature& signature, uint64_t fingerprint,
                           const SpaceMemory& payload, bool may_lend) {
    (void)sequence, (void)signature, (void)fingerprint, (void)payload, (void)may_lend;
    return false;
  }
  // The same where sizes differ by pair, of operations that each rank may begin so or by `begin`. Shows what this rank
  // gives to each other rank (the parts of `input`), a word of the caller's, and for `gathered` how much it gives to
  // and takes from each. If some rank has opened the operation by `begin`, so must those that have begun it by this:
  // with the same sequence, which adds their table to what they show. `gathered` waits for that; where all have come by
  // this, it compares sizes only.
  virtual void begin_pairs(uint64_t sequence, const Signature& signature, uint64_t fingerprint,
                           const SpaceMemory& input, const SpaceMemory& output, uint64_t balance) {
    (void)sequence, (void)signature, (void)fingerprint, (void)input, (void)output, (void)balance;
  }
  // What `peer` (or this rank) shows at that sequence; `data` only where it is `needed`, and nullptr where it is lent
  // and does not count any more. False: not there yet.
  virtual bool eager_input(Rank peer, uint64_t sequence, bool needed, EagerInput* input) {
    (void)peer, (void)sequence, (void)needed, (void)input;
    return false;
  }
  // The same where sizes differ by pair; all but the fingerprint only where that is this rank's own.
  virtual bool pair_input(Rank peer, uint64_t sequence, EagerInput* input) {
    (void)peer, (void)sequence, (void)input;
    return false;
  }
};

// While a block of a peer's memory is read.
class Reading {
 public:
  explicit Reading(Transport& transport) : transport_(transport) { transport_.begin_reading(); }
  ~Reading() { transport_.end_reading(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  Transport& transport_;
};

}  // namespace regroup::transport
