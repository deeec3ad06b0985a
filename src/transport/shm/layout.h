// SPDX-License-Identifier: Apache-2.0
// What a rank publishes in its control segment. Its owner alone writes; peers map it for reading. All of it is plain
// data of one build: peers that join compare versions first.
//
//   Head      how far the owner is, whether it sleeps, what it took back
//   Line × 2  what it called, in turn for odd and even sequence numbers. Every rank waits for all lines of an
//             operation, so whoever begins operation s + 2 knows that everyone is done with the line of s
//   payloads  the data of eager operations that do not fit the line and are not lent
//   tables    where its buffers are, for operations that peers read directly; sizes that may differ by pair
//   outgoing  for each peer: messages announced to it
//   incoming  for each peer: how far its messages were taken
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "plan/schedule.h"
#include "transport/message.h"
#include "transport/signature.h"

namespace regroup::transport::shm {

inline constexpr uint64_t kInlinePayload = 40;       // bytes in a Line
inline constexpr uint64_t kEagerPayload = 64 << 10;  // bytes behind it
inline constexpr uint64_t kLendFrom = 4 << 10;       // smaller inputs are copied: that costs less than giving back
// Where sizes differ by pair: with a core for each rank, what a rank gives in all is quicker fetched from where it lies
// if it is more than this; otherwise a plan's marks, at which ranks take turns on a core, cost more than the copy.
inline constexpr uint64_t kPairsShown = 12 << 10;
inline constexpr uint64_t kTableBytes = 16 << 10;  // greater tables get a segment of their own
inline constexpr uint32_t kSlots = 64;             // messages announced to one peer and not yet taken
inline constexpr uint64_t kSlotPayload = 128;      // bytes of a message that travel in its slot
inline constexpr uint64_t kChunk = 64 << 10;       // staged messages: bytes a piece
inline constexpr uint32_t kChunks = 4;             // pieces under way between two ranks

struct alignas(64) Head {
  std::atomic<uint64_t> progress;  // sequence << 24 | mark
  std::atomic<uint64_t>
      withdrawn;                   // operations up to this sequence are taken back: what is read of them does not count
  std::atomic<uint32_t> sleeping;  // ring my bell after publishing
  std::atomic<uint32_t> reading;   // odd while memory of a rank of the same process is being read
};

constexpr uint64_t progress_of(uint64_t sequence, plan::Mark mark) { return sequence << 24 | mark; }

// Where the input of an eager operation is. Of others: what the rank says about staging. Where sizes differ by pair, a
// rank that shows its input changes this word, last, when it adds its table.
enum class Shown : uint64_t { in_line, behind, lent, no_staging, may_stage, wants_staging };

constexpr bool has_table(Shown shown) { return shown >= Shown::no_staging; }

struct alignas(64) Line {
  std::atomic<uint64_t> sequence;  // last: what follows belongs to it
  // A rank whose operation ended early by a notice may fill the line again while another still looks at it: that one
  // looks at `sequence` again afterwards.
  std::atomic<uint64_t> fingerprint;
  std::atomic<Shown> shown;
  std::byte payload[kInlinePayload];  // lent: a Lent; sizes that differ by pair: see below
};

// An eager operation whose sizes differ by pair: the balance (executor/eager.h) lies first in the line; then, by rank,
// where what it gives to that rank begins (uint32_t); then the data. The offsets lie behind the line where they do not
// fit into it, and so does the data.
constexpr uint64_t pair_header(Rank size) { return sizeof(uint64_t) + size * sizeof(uint32_t); }
constexpr uint64_t pair_offsets_behind(Rank size) {
  return pair_header(size) <= kInlinePayload ? 0 : size * sizeof(uint32_t);
}

// An input in the owner's mapped memory.
struct Lent {
  uint64_t segment;
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(Line) == 64);

// Read only when a peer needs more than the line.
struct alignas(64) LineDetail {
  Signature signature;
  uint64_t table_segment;  // 0: in the control segment
  uint64_t table_bytes;
  std::atomic<int64_t> began;  // base::recent_tick, in nanoseconds: for those who wait in vain
};
static_assert(sizeof(LineDetail) == 64);

// A table: TableHead, then 3 · members entries (plan::Space order), then list entries, then `gives` and `takes` if any.
struct TableHead {
  uint32_t members;
  uint32_t pairs;  // entries of gives, and of takes; 0: none
  uint64_t lists;  // list entries
};
struct TableEntry {
  uint64_t segment;     // 0: ordinary memory
  uint64_t base;        // offset in the segment, or address
  uint64_t part_bytes;  // of each part; list form: unused
  uint32_t parts;
  uint32_t list;  // 1 + index of the first of `parts` list entries; 0: contiguous
};
struct ListEntry {
  uint64_t segment;
  uint64_t base;
  uint64_t bytes;
};

// A message announced to a peer.
struct alignas(64) Slot {
  enum Kind : uint32_t { in_slot, mapped, ordinary, staged };
  std::atomic<uint64_t> generation;  // counts uses of this slot; last: what follows belongs to it
  std::atomic<uint64_t> withdrawn;   // the generation that was taken back
  std::atomic<uint64_t> chunks;      // staged: pieces put so far
  MessageKey key;
  uint64_t fingerprint;
  uint64_t bytes;
  uint64_t segment;  // mapped
  uint64_t base;     // mapped: offset; ordinary: address
  Kind kind;
  std::byte payload[kSlotPayload];
};

// What is announced to one peer, in order.
struct alignas(64) Outgoing {
  std::atomic<uint64_t> announced;  // messages so far
  uint32_t order[kSlots];           // slot of message k at k mod kSlots
  Slot slots[kSlots];
};

// How far a peer's slot was taken by this rank.
struct Taken {
  enum State : uint64_t { unseen, accepted, consumed, refused };
  std::atomic<uint64_t> state;        // generation << 2 | State
  std::atomic<uint64_t> chunks;       // staged: pieces taken
  std::atomic<uint64_t> fingerprint;  // refused: what this rank expects
  std::atomic<uint64_t> bytes;
};
struct alignas(64) Incoming {
  Taken taken[kSlots];
};

struct Control {
  Head head;
  Line lines[2];
  LineDetail details[2];
  alignas(64) std::byte payloads[2][kEagerPayload];
  alignas(64) std::byte tables[2][kTableBytes];
  // Outgoing[peers], Incoming[peers] follow, by rank of the group.

  static uint64_t bytes_for(Rank size) { return sizeof(Control) + size * (sizeof(Outgoing) + sizeof(Incoming)); }
  Outgoing* outgoing(Rank peer) { return reinterpret_cast<Outgoing*>(this + 1) + peer; }
  const Outgoing* outgoing(Rank peer) const { return reinterpret_cast<const Outgoing*>(this + 1) + peer; }
  Incoming* incoming(Rank size, Rank peer) { return reinterpret_cast<Incoming*>(outgoing(size)) + peer; }
  const Incoming* incoming(Rank size, Rank peer) const {
    return reinterpret_cast<const Incoming*>(outgoing(size)) + peer;
  }
};

}  // namespace regroup::transport::shm
