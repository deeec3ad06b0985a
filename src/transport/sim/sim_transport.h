// SPDX-License-Identifier: Apache-2.0
// One rank's end of a simulated network (sim_network.h). Memory that holds nothing of worth is filled with garbage, so
// that whoever relies on it computes something wrong: scratch, and what a receive is about to overwrite.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace regroup::transport::sim {

class SimNetwork;

inline constexpr std::byte kGarbage{0xa7};

// A message under way.
struct Transfer {
  Rank from = 0, to = 0;
  MessageKey key;
  uint64_t fingerprint = 0;
  uint64_t bytes = 0;
  bool buffered = false;        // its data is, or will be, in `data`: the sender need not wait for the receiver
  bool withdrawn = false;       // the sender took it back before its data was read
  Message* sender = nullptr;    // while it waits
  Message* receiver = nullptr;  // once matched
  std::vector<std::byte> data;
  uint64_t moved = 0;
  // The receiver's answer.
  bool refused = false;
  uint64_t other_fingerprint = 0, other_bytes = 0;
};

// Something that happens to a rank at a time.
struct Event {
  enum class Kind : uint8_t {
    published,  // `value` of `from` becomes visible
    written,    // what `rank` has written becomes visible to all (where marks run ahead of writes)
    withdrawn,  // likewise late: `rank` has taken back operation `value`
    resumed,    // after a pause
    // These wait until the rank asks for progress.
    buffered,   // at the sender: the message's data is read
    announced,  // at the receiver
    moved,      // at the receiver: the next piece
    answered,   // at the sender: taken or refused
  };
  uint64_t time = 0;
  uint64_t order = 0;
  Kind kind = Kind::published;
  Rank rank = 0;
  Rank from = 0;
  uint64_t value = 0;
  std::shared_ptr<Transfer> transfer;
};

class SimTransport final : public Transport {
 public:
  SimTransport(SimNetwork& network, Rank rank);

  std::string_view name() const override { return "sim"; }
  bool one_sided(Rank peer) const override;
  void begin(const Opening& opening) override;
  Gathering gathered(Conflict* conflict) override;
  void end() override;
  void withdraw() override;
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
  void woke() override {}
  uint64_t eager_limit() const override;
  bool begin_eager(uint64_t sequence, const Signature& signature, uint64_t fingerprint, const SpaceMemory& payload,
                   bool may_lend) override;
  void begin_pairs(uint64_t sequence, const Signature& signature, uint64_t fingerprint, const SpaceMemory& input,
                   const SpaceMemory& output, uint64_t balance) override;
  bool pair_input(Rank peer, uint64_t sequence, EagerInput* input) override;
  bool eager_input(Rank peer, uint64_t sequence, bool needed, EagerInput* input) override;

  std::string describe() const;

 private:
  friend class SimNetwork;

  // What a rank publishes when it begins an operation: of the last two.
  struct Line {
    uint64_t sequence = 0;
    Signature signature;
    uint64_t fingerprint = 0;
    bool ended = false;
    bool tabled = false;                // opened by `begin`: `members` count
    std::vector<MemberMemory> members;  // their lists point into `lists`
    std::vector<std::vector<Segment>> lists;
    std::vector<uint64_t> gives, takes;
    std::vector<std::byte> payload;
    std::vector<uint64_t> offsets;  // in `payload`, of what it gives to each rank, where sizes differ by pair
    uint64_t balance = 0;           // likewise
    bool lent = false;              // the eager input lies at `lent_data`, in the caller's memory
    const std::byte* lent_data = nullptr;
  };
  // What peers see where writes lag behind marks.
  struct Copy {
    const std::byte* of = nullptr;
    std::vector<std::byte> bytes;
  };

  Line& open(uint64_t sequence, const Signature& signature);
  SimTransport& peer(Rank rank);
  bool sees_table(Rank rank, uint64_t sequence);
  const Line* shown_line(Rank rank, uint64_t sequence);
  bool sizes_differ(const std::vector<Rank>& ranks, Conflict* conflict);
  void handle(const Event& event);
  void match();
  bool match_one(const std::shared_ptr<Transfer>& transfer);
  void move(const std::shared_ptr<Transfer>& transfer);
  void answer(const std::shared_ptr<Transfer>& transfer);
  bool readable(uint64_t sequence) const;
  void take_copies();
  const std::byte* seen_by_peers(const std::byte* data) const;

  SimNetwork& network_;
  const Rank rank_;
  bool mapped_ = true;  // whether peers reach this rank's memory directly, rather than by read()
  uint64_t sequence_ = 0;
  uint64_t withdrawn_ = 0;          // operations up to this one are taken back
  std::vector<uint64_t> progress_;  // by peer: sequence << 25 | mark << 1 | has a table, as far as this rank has seen
  Line lines_[2];
  std::vector<Copy> copies_;
  std::vector<std::byte> scratch_;

  std::vector<Event> inbox_;
  std::vector<Message*> receives_;                    // posted, not matched
  std::vector<std::shared_ptr<Transfer>> unmatched_;  // announced, not matched
  std::vector<std::shared_ptr<Transfer>> incoming_;   // matched, not done
  std::vector<std::shared_ptr<Transfer>> outgoing_;   // not answered
};

}  // namespace regroup::transport::sim
