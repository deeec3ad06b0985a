// SPDX-License-Identifier: Apache-2.0
// Shared memory between the ranks of one host. A rank publishes what it called and where its buffers are in a control
// segment that peers map for reading; peers read mapped buffers directly and ordinary ones by process_vm_readv. Nobody
// ever writes another's memory. Ranks that are threads of one process use each other's addresses as they are.
//
// Files: segment (memory), layout (what is published), shm_transport (arrival, reads, eager operations), shm_tables
// (where buffers are), shm_messages (messages).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "net/waker.h"
#include "transport/shm/layout.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace regroup::transport::shm {

// How peers identify a process beyond its id, which may be used again: fork gives a new one.
uint64_t process_token();

struct ShmOptions {
  Rank rank = 0;
  Rank size = 1;
  std::vector<bool> local;  // which ranks are on this host
  net::Waker* waker = nullptr;
  // Asks a peer for the descriptor of a segment; the answer comes by `offer`. May be called again for the same segment.
  std::function<void(Rank peer, SegmentId segment)> want;
};

class ShmTransport final : public Transport {
 public:
  static Result<std::unique_ptr<ShmTransport>> create(ShmOptions options);
  ~ShmTransport() override;

  // --- joining: what peers need of this rank, and what it needs of them
  const OwnedSegment& control() const { return *control_segment_; }
  void set_local(std::vector<bool> local);
  // `control` and `bell` may be invalid for a peer in this process, which is found by `segment`.
  Status attach(Rank peer, int pid, uint64_t token, SegmentId segment, const base::Fd& control, base::Fd bell);
  // Whether ordinary memory of `peer` can be read: tries it on `address`, which must hold `expected`.
  bool probe(Rank peer, uint64_t address, uint64_t expected) const;
  // What all ranks agreed on; before the first operation.
  void set_cross_process_reads(bool allowed) { cross_process_reads_ = allowed; }

  // The answer for a segment that was asked for: whether it exists, and its descriptor (invalid where this process has
  // no room for it: it is asked for again). Or a segment was freed. Any thread.
  void offer(Rank peer, SegmentId segment, bool exists, base::Fd descriptor);
  void freed(Rank peer, SegmentId segment);
  // `peer` has left and answers no more. Any thread.
  void left(Rank peer);

  // Whether inputs of eager operations are lent. Giving them back costs another turn of all ranks, which is dear where
  // they outnumber the cores: then copies are quicker, also of longer lists.
  void set_lends(bool lends) { lends_ = lends; }

  // The highest sequence number that `peer` has begun. Any thread.
  uint64_t entered(Rank peer) const;
  // What that was, and when, to some milliseconds; sequence 0: nothing yet. Any thread.
  struct Entered {
    uint64_t sequence = 0;
    Signature signature;
    base::Time began{};
  };
  Entered last_entered(Rank peer) const;
  // Whether `peer` is where this rank is and has yet to add its table to the input that it shows.
  bool owes_table(Rank peer) const;

  std::string_view name() const override { return "shm"; }
  bool one_sided(Rank peer) const override { return options_.local[peer] && cross_process_reads_; }
  void begin(const Opening& opening) override;
  Gathering gathered(Conflict* conflict) override;
  bool staging() const override { return staged_; }
  void end() override {}
  void withdraw() override;
  void begin_reading() override;
  void end_reading() override;
  Located locate(Rank peer, uint16_t member, plan::Space space, uint32_t part, uint64_t offset,
                 uint64_t bytes) override;
  bool read(Rank peer, uint64_t address, std::byte* to, uint64_t bytes) override;
  bool counts(Rank peer) override;
  void notify(plan::Mark mark) override;
  bool notified(Rank peer, plan::Mark mark) override;
  std::byte* scratch(uint64_t bytes) override;
  void post_send(Message& message) override;
  void post_receive(Message& message) override;
  void cancel(Message& message) override;
  Rank announced(uint32_t tag, std::span<const uint64_t> sequences) override;
  bool progress() override;
  bool prepare_sleep() override;
  void woke() override;
  uint64_t eager_limit() const override { return all_local_ ? kEagerPayload : 0; }
  uint64_t pairs_limit() const override { return lends_ ? std::min(kPairsShown, eager_limit()) : eager_limit(); }
  bool begin_eager(uint64_t sequence, const Signature& signature, uint64_t fingerprint, const SpaceMemory& payload,
                   bool may_lend) override;
  void begin_pairs(uint64_t sequence, const Signature& signature, uint64_t fingerprint, const SpaceMemory& input,
                   const SpaceMemory& output, uint64_t balance) override;
  bool pair_input(Rank peer, uint64_t sequence, EagerInput* input) override;
  bool eager_input(Rank peer, uint64_t sequence, bool needed, EagerInput* input) override;

 private:
  // A message that a peer announced and nobody here has posted a receive for yet, or whose transfer is under way.
  struct Announcement {
    Rank peer;
    uint32_t slot;
    uint64_t generation;
  };
  // What one of this rank's slots is used for. It stays in use until the receiver has answered, also when the message
  // is over for the sender (its data is in the slot, or it was cancelled).
  struct SlotUse {
    bool used = false;
    Message* message = nullptr;  // nullptr: nobody waits for the answer
    uint64_t generation = 0;
  };
  // A message taken before its receive was posted, because all of the sender's slots were full of such messages and
  // what is waited for could not be announced.
  struct Parked {
    Message message;
    std::unique_ptr<std::byte[]> data;
    Message* claimed = nullptr;  // the receive that was posted since
  };
  struct Peer {
    int pid = 0;
    bool in_process = false;
    const Control* control = nullptr;
    std::unique_ptr<MappedSegment> mapping;      // of the control segment, for other processes
    std::shared_ptr<const OwnedSegment> shared;  // the control segment, for threads of this process
    std::shared_ptr<const OwnedSegment> table;   // likewise: the segment of the last great table
    base::Fd bell;
    std::unordered_map<SegmentId, std::unique_ptr<MappedSegment>> segments;
    std::vector<SegmentId> wanted;
    std::vector<SegmentId> gone;  // freed since this rank began the current operation
    bool left = false;
    uint64_t resolved = 0;             // the sequence whose table's segments are all mapped
    std::vector<uint64_t> table_copy;  // of the table of this sequence:
    uint64_t table_copied = 0;
    // messages to it
    std::deque<Message*> waiting;  // for a free slot
    SlotUse slots[kSlots];
    uint64_t announced_count = 0;
    uint32_t slots_in_use = 0;
    Message* staging_by = nullptr;  // whose pieces are in the staging area
    // messages from it
    uint64_t seen = 0;
    std::vector<Announcement> unmatched;
    std::vector<Message*> receives;  // posted, not matched
    std::vector<std::unique_ptr<Parked>> parked;
    uint64_t parked_bytes = 0;
  };
  struct Incoming {
    Message* message;
    Rank peer;
    uint32_t slot;
    uint64_t generation;
  };
  // A peer's table, with bounds checked against its size.
  struct TableView {
    const TableHead* head = nullptr;
    const TableEntry* entries = nullptr;
    const ListEntry* lists = nullptr;
    const uint64_t* gives = nullptr;
    const uint64_t* takes = nullptr;

    // False where there is no table, or not a whole one.
    static bool open(std::span<const std::byte> table, TableView* view);
  };

  explicit ShmTransport(ShmOptions options) : options_(std::move(options)) {}
  void note_time(uint64_t parity);
  Control& own() const { return *reinterpret_cast<Control*>(control_segment_->data()); }
  void ring_sleepers();
  void await_readers() const;
  // The address of a peer's segment in this process; nullptr: not mapped (yet), and asked for.
  const std::byte* mapped(Rank peer, SegmentId segment, uint64_t offset, uint64_t bytes);
  void want(Peer& peer, Rank rank, SegmentId segment);
  bool is_gone(const Peer& peer, SegmentId segment) const;
  void take_offers();
  void forget_gone();
  // --- tables
  bool write_table(const Opening& opening, uint64_t parity);
  void write_sizes(const SpaceMemory& input, const SpaceMemory& output, uint64_t parity);
  void tell_table(SegmentId segment, uint64_t bytes, uint64_t parity);
  std::span<const std::byte> table_of(Rank rank);
  std::span<const std::byte> shared_table_of(Rank rank);
  bool resolve(Rank peer);
  bool find_conflict(Conflict* conflict);
  bool wants_staging() const;
  bool tables_are_due() const;
  void open_eager(uint64_t sequence, uint64_t fingerprint);
  void publish_eager(const Signature& signature, Shown shown);
  bool find_pair_conflict(Conflict* conflict);
  // --- messages
  bool take_announcements(Rank rank);
  bool match(Rank rank);
  bool claim(Message& message);
  void park(Rank rank);
  bool hand_out(Peer& peer);
  bool announce(Rank rank, Message& message);
  bool send_progress(Rank rank);
  bool stage(Rank rank, Message& message);
  bool receive_progress(Incoming& incoming);
  bool receive_staged(Incoming& incoming, const Slot& slot, Taken& taken);
  bool read_message(Incoming& incoming, const Slot& slot);
  std::byte* staging_area(Rank peer);
  void answered(Peer& peer, uint32_t slot, Message::State state);

  ShmOptions options_;
  std::shared_ptr<OwnedSegment> control_segment_;
  std::shared_ptr<OwnedSegment> scratch_;
  std::shared_ptr<OwnedSegment> staging_;  // kChunks · kChunk for each peer; made at need
  std::shared_ptr<OwnedSegment> big_table_[2];
  std::vector<Peer> peers_;
  std::vector<Rank> local_;  // the others on this host, ascending
  bool all_local_ = true;
  bool threads_ = false;          // whether some of `local_` are ranks of this process
  bool other_processes_ = false;  // whether some are not
  bool cross_process_reads_ = true;
  bool lends_ = true;

  uint64_t sequence_ = 0;
  uint64_t fingerprint_ = 0;
  size_t arrived_ = 0;               // how many of `local_` have begun `sequence_`
  bool complete_ = false;            // all have, and called the same: their lines are looked at no more
  bool staged_ = false;              // what was then decided
  bool overtaken_ = false;           // a neighbour had ended the operation before its table was copied
  std::vector<TableEntry> entries_;  // reused, as the next two
  std::vector<ListEntry> lists_;
  std::vector<TableView> views_;
  std::vector<Incoming> receiving_;
  std::vector<std::byte> bounce_;

  std::mutex offers_mutex_;
  struct Offer {
    Rank peer;
    SegmentId segment;
    base::Fd descriptor;
    enum class What : uint8_t { answer, freed, left } what;
  };
  std::vector<Offer> offers_;
  std::atomic<bool> has_offers_ = false;
};

}  // namespace regroup::transport::shm
