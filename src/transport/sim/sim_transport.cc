// SPDX-License-Identifier: Apache-2.0
// Arrival and reads of peers' memory; messages are in sim_messages.cc.
#include "transport/sim/sim_transport.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "transport/sim/sim_network.h"

namespace regroup::transport::sim {

namespace {

constexpr uint64_t progress_of(uint64_t sequence, plan::Mark mark) { return sequence << 25 | uint64_t{mark} << 1; }
// Beyond having begun: there is a table.
constexpr uint64_t table_of(uint64_t sequence) { return progress_of(sequence, 0) | 1; }
constexpr size_t index(plan::Space space) { return static_cast<size_t>(space); }

}  // namespace

SimTransport::SimTransport(SimNetwork& network, Rank rank)
    : network_(network), rank_(rank), progress_(network.size(), 0) {}

SimTransport& SimTransport::peer(Rank rank) { return *network_.ranks_[rank]; }

bool SimTransport::one_sided(Rank peer) const {
  const auto& domain = network_.options_.memory_domain;
  return !domain.empty() && peer != rank_ && domain[peer] == domain[rank_];
}

uint64_t SimTransport::eager_limit() const { return network_.options_.eager_limit; }

SimTransport::Line& SimTransport::open(uint64_t sequence, const Signature& signature) {
  REGROUP_ASSERT(sequence == sequence_ + 1);
  sequence_ = sequence;
  Line& line = lines_[sequence & 1];
  std::fill(line.payload.begin(), line.payload.end(), kGarbage);
  line.sequence = sequence;
  line.signature = signature;
  line.fingerprint = transport::fingerprint(signature);
  line.ended = false;
  line.lent = line.tabled = false;
  line.members.clear();
  line.lists.clear();
  line.gives.clear();
  line.takes.clear();
  return line;
}

void SimTransport::begin(const Opening& opening) {
  // It may follow begin_pairs; slow ranks look at what that showed.
  const bool shown = opening.sequence == sequence_;
  Line& line = shown ? lines_[sequence_ & 1] : open(opening.sequence, opening.signature);
  line.tabled = true;
  line.ended = false;
  line.members.assign(opening.members.begin(), opening.members.end());
  for (MemberMemory& member : line.members) {
    for (SpaceMemory& space : member.spaces) {
      if (space.list == nullptr) continue;
      line.lists.emplace_back(space.list, space.list + space.parts);
      space.list = line.lists.back().data();
    }
  }
  line.gives.assign(opening.gives.begin(), opening.gives.end());
  line.takes.assign(opening.takes.begin(), opening.takes.end());
  if (network_.options_.breach == Breach::marks_before_writes) take_copies();
  network_.publish(rank_, table_of(sequence_));
}

Gathering SimTransport::gathered(Conflict* conflict) {
  const Line& mine = lines_[sequence_ & 1];
  std::map<uint64_t, size_t> votes = {{mine.fingerprint, 1}};
  std::vector<Rank> peers;
  for (Rank other = 0; other < network_.size(); ++other) {
    if (!one_sided(other)) continue;
    if (progress_[other] < progress_of(sequence_, 0)) return Gathering::waiting;
    const Line& theirs = peer(other).lines_[sequence_ & 1];
    if (theirs.sequence != sequence_) return Gathering::failed;
    ++votes[theirs.fingerprint];
    peers.push_back(other);
  }
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const Rank other : peers) {
    const Line& theirs = peer(other).lines_[sequence_ & 1];
    if (theirs.fingerprint != mine.fingerprint) {
      *conflict = Conflict();
      conflict->first = rank_;
      conflict->second = other;
      conflict->first_signature = mine.signature;
      conflict->second_signature = theirs.signature;
      for (Rank rank = 0; rank < network_.size(); ++rank) {
        if (rank != rank_ && !one_sided(rank)) continue;
        if (peer(rank).lines_[sequence_ & 1].fingerprint != most->first) conflict->differ.push_back(rank);
      }
      return Gathering::conflict;
    }
  }
  for (const Rank other : peers) {
    if (sees_table(other, sequence_) != mine.tabled) return Gathering::waiting;
  }
  peers.push_back(rank_);
  return sizes_differ(peers, conflict) ? Gathering::conflict : Gathering::complete;
}

// Whether one of these ranks gives another something else than that one takes.
bool SimTransport::sizes_differ(const std::vector<Rank>& ranks, Conflict* conflict) {
  for (const Rank giver : ranks) {
    for (const Rank taker : ranks) {
      const Line &gives = peer(giver).lines_[sequence_ & 1], &takes = peer(taker).lines_[sequence_ & 1];
      if (gives.gives.empty() || takes.takes.empty() || gives.gives[taker] == takes.takes[giver]) continue;
      *conflict = Conflict();
      conflict->first = giver;
      conflict->second = taker;
      conflict->differ = {giver, taker};
      conflict->first_signature = conflict->second_signature = gives.signature;
      conflict->sizes = true;
      conflict->gives = gives.gives[taker];
      conflict->takes = takes.takes[giver];
      return true;
    }
  }
  return false;
}

void SimTransport::end() {
  lines_[sequence_ & 1].ended = true;
  std::fill(scratch_.begin(), scratch_.end(), kGarbage);
}

void SimTransport::withdraw() {
  if (network_.options_.breach == Breach::late_withdrawal) {
    network_.schedule({.kind = Event::Kind::withdrawn, .rank = rank_, .value = sequence_}, 1'000'000'000);
    return;
  }
  withdrawn_ = sequence_;
}

Located SimTransport::locate(Rank rank, uint16_t member, plan::Space space, uint32_t part, uint64_t offset,
                             uint64_t bytes) {
  SimTransport& owner = peer(rank);
  const Line& line = owner.lines_[sequence_ & 1];
  const bool seen = progress_[rank] >= progress_of(sequence_, 0);
  if (!one_sided(rank) || !seen || line.sequence != sequence_ || member >= line.members.size()) {
    network_.violation("rank " + std::to_string(rank_) + " reads memory of rank " + std::to_string(rank) +
                       ", which is not in operation " + std::to_string(sequence_) + " with it");
    return {};
  }
  if (line.ended && owner.withdrawn_ < sequence_ && network_.options_.breach != Breach::late_withdrawal) {
    network_.violation("rank " + std::to_string(rank_) + " reads memory of rank " + std::to_string(rank) +
                       ", which has returned");
  }
  if (!owner.readable(sequence_)) return {};
  const SpaceMemory& memory = line.members[member].spaces[index(space)];
  const uint64_t before = memory.list == nullptr ? part * memory.part_bytes + offset : 0;
  if (part >= memory.parts || before >= memory.total()) return {};
  Segment piece;
  if (memory.list == nullptr) {
    piece = {memory.base + before, std::min(bytes, memory.total() - before)};
  } else {
    memory.pieces(part, offset, bytes, [&piece](std::byte* data, uint64_t take) {
      if (piece.data == nullptr) piece = {data, take};
    });
  }
  // A transport may give less at a time than was asked for.
  const uint64_t width = line.members[member].element_bytes;
  if (piece.bytes > width && network_.chance(32)) piece.bytes = (1 + network_.draw(piece.bytes / width)) * width;
  const std::byte* data = owner.seen_by_peers(piece.data);
  return {owner.mapped_ ? data : nullptr, reinterpret_cast<uint64_t>(data), piece.bytes};
}

// What was taken back may have been freed since, or not yet.
bool SimTransport::readable(uint64_t sequence) const {
  if (network_.schedules_[rank_].dead) return false;
  return withdrawn_ < sequence || network_.chance(128);
}

bool SimTransport::read(Rank rank, uint64_t address, std::byte* to, uint64_t bytes) {
  if (!peer(rank).readable(sequence_)) return false;
  std::memcpy(to, reinterpret_cast<const std::byte*>(address), bytes);
  return true;
}

bool SimTransport::counts(Rank rank) {
  if (network_.options_.after_read) network_.options_.after_read(rank_, rank);
  return peer(rank).withdrawn_ < sequence_;
}

void SimTransport::notify(plan::Mark mark) {
  network_.publish(rank_, progress_of(sequence_, mark));
  if (network_.options_.breach == Breach::marks_before_writes) {
    network_.schedule({.kind = Event::Kind::written, .rank = rank_}, 10 * network_.spread_);
  }
}

bool SimTransport::notified(Rank rank, plan::Mark mark) { return progress_[rank] >= progress_of(sequence_, mark); }

std::byte* SimTransport::scratch(uint64_t bytes) {
  // Garbage around it as well, should something be read beyond its end.
  scratch_.assign(bytes + 128, kGarbage);
  return scratch_.data() + (64 - reinterpret_cast<uint64_t>(scratch_.data()) % 64) % 64;
}

bool SimTransport::begin_eager(uint64_t sequence, const Signature& signature, uint64_t fingerprint,
                               const SpaceMemory& payload, bool may_lend) {
  Line& line = open(sequence, signature);
  line.fingerprint = fingerprint;
  line.payload.clear();
  line.lent = may_lend && payload.list == nullptr && network_.options_.lends && payload.total() > 0;
  line.ended = !line.lent;  // nobody reads the caller's memory
  if (line.lent) {
    line.lent_data = payload.base;
  } else {
    for (uint32_t part = 0; part < payload.parts; ++part) {
      const Segment segment = payload.part(part);
      line.payload.insert(line.payload.end(), segment.data, segment.data + segment.bytes);
    }
  }
  line.payload.resize(line.payload.size() + 64, kGarbage);
  network_.publish(rank_, progress_of(sequence_, 0));
  return line.lent;
}

void SimTransport::begin_pairs(uint64_t sequence, const Signature& signature, uint64_t fingerprint,
                               const SpaceMemory& input, const SpaceMemory& output, uint64_t balance) {
  Line& line = open(sequence, signature);
  line.fingerprint = fingerprint;
  line.payload.clear();
  line.offsets.clear();
  line.balance = balance;
  line.ended = true;  // nobody reads the caller's memory
  for (Rank rank = 0; rank < network_.size(); ++rank) {
    const Segment segment = input.part(rank);
    line.offsets.push_back(line.payload.size());
    if (rank != rank_) line.payload.insert(line.payload.end(), segment.data, segment.data + segment.bytes);
    line.gives.push_back(segment.bytes);
    line.takes.push_back(output.bytes_of(rank));
  }
  line.payload.resize(line.payload.size() + 64, kGarbage);
  network_.publish(rank_, progress_of(sequence_, 0));
}

// What a rank shows, once this one has seen that it has begun the operation.
const SimTransport::Line* SimTransport::shown_line(Rank rank, uint64_t sequence) {
  if (rank != rank_ && progress_[rank] < progress_of(sequence, 0)) return nullptr;
  const Line& line = peer(rank).lines_[sequence & 1];
  if (line.sequence == sequence) return &line;
  network_.violation("rank " + std::to_string(rank_) + " looks for an input that rank " + std::to_string(rank) +
                     " no longer shows");
  return nullptr;
}

// Who has gone on to the next operation has shown all of this one.
bool SimTransport::sees_table(Rank rank, uint64_t sequence) {
  if (progress_[rank] >= progress_of(sequence + 1, 0)) return peer(rank).lines_[sequence & 1].tabled;
  return progress_[rank] >= table_of(sequence);
}

bool SimTransport::pair_input(Rank rank, uint64_t sequence, EagerInput* input) {
  const Line* line = shown_line(rank, sequence);
  if (line == nullptr) return false;
  input->fingerprint = line->fingerprint;
  if (line->fingerprint != lines_[sequence & 1].fingerprint) return true;
  input->planned = rank != rank_ && sees_table(rank, sequence);
  if (input->planned) return true;
  input->balance = line->balance;
  input->data = line->payload.data() + line->offsets[rank_];
  return true;
}

bool SimTransport::eager_input(Rank rank, uint64_t sequence, bool needed, EagerInput* input) {
  const Line* shown = shown_line(rank, sequence);
  if (shown == nullptr) return false;
  const Line& line = *shown;
  const SimTransport& owner = peer(rank);
  if (needed && line.lent && line.ended && rank != rank_ && owner.withdrawn_ < sequence) {
    network_.violation("rank " + std::to_string(rank_) + " reads the input of rank " + std::to_string(rank) +
                       ", which has returned");
  }
  input->data = line.lent ? line.lent_data : line.payload.data();
  input->fingerprint = line.fingerprint;
  input->lent = line.lent;
  return true;
}

// Copies of all pieces of memory that peers may read in the current operation, as they are now.
void SimTransport::take_copies() {
  copies_.clear();
  for (const MemberMemory& member : lines_[sequence_ & 1].members) {
    for (const SpaceMemory& space : member.spaces) {
      const uint32_t pieces = space.list == nullptr ? 1 : space.parts;
      for (uint32_t piece = 0; piece < pieces; ++piece) {
        const Segment segment = space.list == nullptr ? Segment{space.base, space.total()} : space.list[piece];
        if (segment.bytes > 0) copies_.push_back({segment.data, {segment.data, segment.data + segment.bytes}});
      }
    }
  }
}

const std::byte* SimTransport::seen_by_peers(const std::byte* data) const {
  for (const Copy& copy : copies_) {
    if (data >= copy.of && data < copy.of + copy.bytes.size()) return copy.bytes.data() + (data - copy.of);
  }
  return data;
}

std::string SimTransport::describe() const {
  std::string text = "rank " + std::to_string(rank_) + ", operation " + std::to_string(sequence_) + ", has seen";
  for (Rank rank = 0; rank < network_.size(); ++rank) {
    if (rank == rank_ || !one_sided(rank)) continue;
    text += " " + std::to_string(rank) + "@" + std::to_string(progress_[rank] >> 25) + "/" +
            std::to_string(progress_[rank] >> 1 & plan::kDone);
  }
  for (const Message* message : receives_) {
    text += "; receives message " + std::to_string(message->key.number) + " of operation " +
            std::to_string(message->key.sequence) + " from " + std::to_string(message->peer);
  }
  for (const auto& transfer : outgoing_) {
    if (transfer->sender == nullptr) continue;
    text += "; sends message " + std::to_string(transfer->key.number) + " of operation " +
            std::to_string(transfer->key.sequence) + " to " + std::to_string(transfer->to);
  }
  return text;
}

}  // namespace regroup::transport::sim
