// SPDX-License-Identifier: Apache-2.0
// Tables: where a rank says its buffers are, and how peers find them there. What a peer wrote is checked against the
// bounds of its table and of its segments.
#include <algorithm>
#include <cstring>

#include "base/fence.h"
#include "transport/shm/shm_transport.h"
#include "transport/shm/words.h"

namespace regroup::transport::shm {

namespace {

// Where there was no memory for a table that does not fit the control segment.
constexpr SegmentId kNoTable = ~SegmentId{0};

}  // namespace

// True if all inputs and outputs lie in memory that peers map.
bool ShmTransport::write_table(const Opening& opening, uint64_t parity) {
  const SegmentRegister& segments = SegmentRegister::of_process();
  TableHead head{static_cast<uint32_t>(opening.members.size()), static_cast<uint32_t>(opening.gives.size()), 0};
  entries_.clear();
  lists_.clear();
  bool all_mapped = true;
  for (const MemberMemory& member : opening.members) {
    for (const SpaceMemory& space : member.spaces) {
      TableEntry entry{0, 0, space.part_bytes, space.parts, 0};
      if (space.list == nullptr) {
        const auto place = segments.find(space.base, space.part_bytes * space.parts);
        entry.segment = place.id;
        entry.base = place.id != 0 ? place.offset : reinterpret_cast<uint64_t>(space.base);
        all_mapped &= place.id != 0 || space.total() == 0;
      } else {
        entry.list = static_cast<uint32_t>(lists_.size()) + 1;
        for (uint32_t part = 0; part < space.parts; ++part) {
          const Segment& piece = space.list[part];
          const auto place = segments.find(piece.data, piece.bytes);
          all_mapped &= place.id != 0 || piece.bytes == 0;
          lists_.push_back(
              {place.id, place.id != 0 ? place.offset : reinterpret_cast<uint64_t>(piece.data), piece.bytes});
        }
      }
      entries_.push_back(entry);
    }
  }
  head.lists = lists_.size();
  const uint64_t bytes = sizeof head + entries_.size() * sizeof(TableEntry) + lists_.size() * sizeof(ListEntry) +
                         2 * opening.gives.size() * sizeof(uint64_t);
  std::byte* to = own().tables[parity];
  SegmentId table_segment = 0;
  if (bytes > kTableBytes) {
    auto& segment = big_table_[parity];
    if (segment == nullptr || segment->bytes() < bytes) {
      auto made = OwnedSegment::create(bytes * 2);
      // Without a table nobody can read this rank's memory: the peers wait until this rank's caller is told, at the
      // deadline.
      segment = made.ok() ? std::move(made).value() : nullptr;
    }
    to = segment != nullptr ? segment->data() : nullptr;
    table_segment = segment != nullptr ? segment->id() : kNoTable;
  }
  tell_table(table_segment, bytes, parity);
  if (to == nullptr) return all_mapped;
  const auto put = [&to](const void* data, uint64_t size) {
    store_words(to, data, size);
    to += size;
  };
  put(&head, sizeof head);
  put(entries_.data(), entries_.size() * sizeof(TableEntry));
  put(lists_.data(), lists_.size() * sizeof(ListEntry));
  put(opening.gives.data(), opening.gives.size_bytes());
  put(opening.takes.data(), opening.takes.size_bytes());
  return all_mapped;
}

// A table of nothing but what this rank gives to and takes from each: for `find_pair_conflict`.
void ShmTransport::write_sizes(const SpaceMemory& input, const SpaceMemory& output, uint64_t parity) {
  const Rank size = options_.size;
  const uint64_t whole = sizeof(TableHead) + 2 * size * sizeof(uint64_t);
  REGROUP_ASSERT(whole <= kTableBytes);
  tell_table(0, whole, parity);
  std::byte* to = own().tables[parity];
  const TableHead head{0, size, 0};
  store_words(to, &head, sizeof head);
  to += sizeof head;
  for (const SpaceMemory* memory : {&input, &output}) {
    for (Rank rank = 0; rank < size; ++rank, to += sizeof(uint64_t)) {
      const uint64_t bytes = memory->bytes_of(rank);
      store_words(to, &bytes, sizeof bytes);
    }
  }
}

void ShmTransport::tell_table(SegmentId segment, uint64_t bytes, uint64_t parity) {
  LineDetail& detail = own().details[parity];
  peers_[options_.rank].table_copied = 0;
  store_words(&detail.table_segment, &segment, sizeof segment);
  store_words(&detail.table_bytes, &bytes, sizeof bytes);
}

// A copy of a rank's table, made once an operation: a neighbour whose operation has ended early, by a notice from
// another host, may write the table of the operation after next while this rank still works on this one.
std::span<const std::byte> ShmTransport::table_of(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.table_copied == sequence_) return std::as_bytes(std::span(peer.table_copy));
  const std::span<const std::byte> shared = shared_table_of(rank);
  if (shared.data() == nullptr) return {};
  peer.table_copy.resize(shared.size() / sizeof(uint64_t));
  load_words(peer.table_copy.data(), shared.data(), shared.size());
  base::load_fence();
  if (peer.control->lines[sequence_ & 1].sequence.load(std::memory_order_acquire) != sequence_) {
    overtaken_ = true;
    return {};
  }
  peer.table_copied = sequence_;
  return std::as_bytes(std::span(peer.table_copy));
}

// Where it is; nowhere while its segment is not here.
std::span<const std::byte> ShmTransport::shared_table_of(Rank rank) {
  const Control& control = *peers_[rank].control;
  const LineDetail& detail = control.details[sequence_ & 1];
  const SegmentId segment = load_words(detail.table_segment);
  const uint64_t bytes = load_words(detail.table_bytes) / sizeof(uint64_t) * sizeof(uint64_t);
  if (segment != 0 && peers_[rank].in_process) {
    // Held, because its owner may leave while it is being looked at.
    std::shared_ptr<const OwnedSegment>& table = peers_[rank].table;
    if (table == nullptr || table->id() != segment) table = SegmentRegister::of_process().hold(segment);
    if (table == nullptr || table->bytes() < bytes) return {};
    return std::span<const std::byte>(table->data(), bytes);
  }
  if (segment != 0) {
    const std::byte* table = mapped(rank, segment, 0, bytes);
    return table == nullptr ? std::span<const std::byte>() : std::span(table, bytes);
  }
  return {control.tables[sequence_ & 1], std::min(bytes, kTableBytes)};
}

bool ShmTransport::TableView::open(std::span<const std::byte> table, TableView* view) {
  const uint64_t bytes = table.size();
  if (bytes < sizeof(TableHead)) return false;
  view->head = reinterpret_cast<const TableHead*>(table.data());
  const uint64_t entries = 3ull * view->head->members;
  const uint64_t lists = view->head->lists;
  if (lists > bytes / sizeof(ListEntry)) return false;
  const uint64_t needed = sizeof(TableHead) + entries * sizeof(TableEntry) + lists * sizeof(ListEntry) +
                          2ull * view->head->pairs * sizeof(uint64_t);
  if (needed > bytes) return false;
  view->entries = reinterpret_cast<const TableEntry*>(table.data() + sizeof(TableHead));
  view->lists = reinterpret_cast<const ListEntry*>(view->entries + entries);
  view->gives = reinterpret_cast<const uint64_t*>(view->lists + lists);
  view->takes = view->gives + view->head->pairs;
  return true;
}

// Maps what the peer's table names; false while some of it is not here yet.
bool ShmTransport::resolve(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.resolved == sequence_) return true;
  const auto here = [&](SegmentId segment) {
    return segment == 0 || is_gone(peer, segment) || mapped(rank, segment, 0, 0) != nullptr;
  };
  TableView view;
  bool all = true;
  if (!TableView::open(table_of(rank), &view)) {
    const SegmentId table = load_words(peer.control->details[sequence_ & 1].table_segment);
    all = table != kNoTable && (peer.in_process || is_gone(peer, table));
  } else if (!peer.in_process) {
    for (uint32_t i = 0; i < 3 * view.head->members; ++i) {
      if (view.entries[i].list == 0) all &= here(view.entries[i].segment);
    }
    for (uint64_t i = 0; i < view.head->lists; ++i) all &= here(view.lists[i].segment);
  }
  if (all) peer.resolved = sequence_;
  return all;
}

bool ShmTransport::find_pair_conflict(Conflict* conflict) {
  const uint64_t parity = sequence_ & 1;
  TableView own_view;
  if (!TableView::open(table_of(options_.rank), &own_view) || own_view.head->pairs == 0) return false;
  views_.assign(options_.size, TableView());
  views_[options_.rank] = own_view;
  for (const Rank rank : local_) {
    if (!TableView::open(table_of(rank), &views_[rank]) || views_[rank].head->pairs != options_.size) {
      return false;
    }
  }
  for (Rank giver = 0; giver < options_.size; ++giver) {
    if (views_[giver].head == nullptr) continue;
    for (Rank taker = 0; taker < options_.size; ++taker) {
      if (views_[taker].head == nullptr || views_[giver].gives[taker] == views_[taker].takes[giver]) continue;
      *conflict = Conflict();
      conflict->first = giver;
      conflict->second = taker;
      conflict->first_signature = load_words(peers_[giver].control->details[parity].signature);
      conflict->second_signature = load_words(peers_[taker].control->details[parity].signature);
      conflict->differ = {giver, taker};
      conflict->sizes = true;
      conflict->gives = views_[giver].gives[taker];
      conflict->takes = views_[taker].takes[giver];
      return true;
    }
  }
  return false;
}

Located ShmTransport::locate(Rank rank, uint16_t member, plan::Space space, uint32_t part, uint64_t offset,
                             uint64_t bytes) {
  if (peers_[rank].in_process && rank != options_.rank && !counts(rank)) return {};
  TableView view;
  if (!TableView::open(table_of(rank), &view) || member >= view.head->members) {
    return {};
  }
  const TableEntry& entry = view.entries[3u * member + static_cast<uint32_t>(space)];
  uint64_t segment = entry.segment, address = entry.base, length = 0;
  if (entry.list == 0) {
    const uint64_t from = part * entry.part_bytes + offset;
    const uint64_t total = entry.part_bytes * entry.parts;
    if (from >= total) return {};
    address += from;
    length = std::min(bytes, total - from);
  } else {
    while (part < entry.parts && offset >= view.lists[entry.list - 1 + part].bytes) {
      offset -= view.lists[entry.list - 1 + part].bytes;
      ++part;
    }
    if (part >= entry.parts || entry.list - 1 + part >= view.head->lists) return {};
    const ListEntry& piece = view.lists[entry.list - 1 + part];
    segment = piece.segment;
    address = piece.base + offset;
    length = std::min(bytes, piece.bytes - offset);
  }
  Located located{nullptr, address, length};
  if (segment != 0) {
    located.mapped = mapped(rank, segment, address, length);
    if (located.mapped == nullptr) return {};
  } else if (peers_[rank].in_process) {
    located.mapped = reinterpret_cast<const std::byte*>(address);
  }
  return located;
}

}  // namespace regroup::transport::shm
