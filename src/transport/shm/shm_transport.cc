// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_transport.h"

#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fence.h"

namespace regroup::transport::shm {

namespace {

uint64_t random_word() {
  uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word) word = static_cast<uint64_t>(getpid()) << 32 | 1;
  return word | 1;
}

}  // namespace

uint64_t process_token() {
  struct Token {
    std::mutex mutex;
    int pid = 0;
    uint64_t value = 0;
  };
  static Token* token = new Token;
  std::lock_guard lock(token->mutex);
  if (token->pid != getpid()) {
    token->pid = getpid();
    token->value = random_word();
  }
  return token->value;
}

Result<std::unique_ptr<ShmTransport>> ShmTransport::create(ShmOptions options) {
  std::unique_ptr<ShmTransport> transport(new ShmTransport(std::move(options)));
  auto segment = OwnedSegment::create(Control::bytes_for(transport->options_.size));
  if (!segment.ok()) return segment.status();
  transport->control_segment_ = std::move(segment).value();
  transport->peers_.resize(transport->options_.size);
  transport->set_local(transport->options_.local);
  Peer& self = transport->peers_[transport->options_.rank];
  self.pid = getpid();
  self.in_process = true;
  self.control = &transport->own();
  return transport;
}

ShmTransport::~ShmTransport() = default;

void ShmTransport::set_local(std::vector<bool> local) {
  options_.local = std::move(local);
  local_.clear();
  all_local_ = true;
  for (Rank rank = 0; rank < options_.size; ++rank) {
    if (!options_.local[rank]) {
      all_local_ = false;
    } else if (rank != options_.rank) {
      local_.push_back(rank);
    }
  }
}

Status ShmTransport::attach(Rank rank, int pid, uint64_t token, SegmentId segment, const base::Fd& control,
                            base::Fd bell) {
  Peer& peer = peers_[rank];
  peer.pid = pid;
  peer.in_process = token == process_token();
  peer.bell = std::move(bell);
  const uint64_t needed = Control::bytes_for(options_.size);
  uint64_t bytes = 0;
  if (peer.in_process) {
    peer.shared = SegmentRegister::of_process().hold(segment);
    if (peer.shared != nullptr) {
      peer.control = reinterpret_cast<const Control*>(peer.shared->data());
      bytes = peer.shared->bytes();
    }
  } else {
    auto mapping = MappedSegment::map(control);
    if (!mapping.ok()) return mapping.status();
    peer.mapping = std::move(mapping).value();
    bytes = peer.mapping->bytes();
    peer.control = reinterpret_cast<const Control*>(peer.mapping->data());
  }
  if (peer.control == nullptr || bytes < needed) {
    return Status(StatusCode::io_error,
                  "rank " + std::to_string(rank) + " passed a control segment of " + std::to_string(bytes) +
                      " bytes where " + std::to_string(needed) + " are needed: another build of regroup?",
                  {rank});
  }
  return Status();
}

bool ShmTransport::probe(Rank rank, uint64_t address, uint64_t expected) const {
  const Peer& peer = peers_[rank];
  if (peer.in_process) return true;
  uint64_t word = 0;
  iovec local{&word, sizeof word};
  iovec remote{reinterpret_cast<void*>(address), sizeof word};
  return process_vm_readv(peer.pid, &local, 1, &remote, 1, 0) == sizeof word && word == expected;
}

void ShmTransport::offer(Rank peer, SegmentId segment, base::Fd descriptor) {
  {
    std::lock_guard lock(offers_mutex_);
    offers_.push_back({peer, segment, std::move(descriptor), false});
  }
  has_offers_.store(true, std::memory_order_release);
  options_.waker->ring();
}

void ShmTransport::freed(Rank peer, SegmentId segment) {
  std::lock_guard lock(offers_mutex_);
  offers_.push_back({peer, segment, base::Fd(), true});
  has_offers_.store(true, std::memory_order_release);
}

void ShmTransport::take_offers() {
  if (!has_offers_.load(std::memory_order_acquire)) return;
  std::vector<Offer> offers;
  {
    std::lock_guard lock(offers_mutex_);
    offers.swap(offers_);
    has_offers_.store(false, std::memory_order_relaxed);
  }
  for (Offer& offer : offers) {
    Peer& peer = peers_[offer.peer];
    std::erase(peer.wanted, offer.segment);
    if (offer.freed) {
      peer.segments.erase(offer.segment);
    } else if (!offer.descriptor.valid()) {
      peer.segments[offer.segment] = nullptr;
    } else if (auto mapping = MappedSegment::map(offer.descriptor); mapping.ok()) {
      peer.segments[offer.segment] = std::move(mapping).value();
    }
  }
}

void ShmTransport::want(Peer& peer, Rank rank, SegmentId segment) {
  if (std::find(peer.wanted.begin(), peer.wanted.end(), segment) != peer.wanted.end()) return;
  peer.wanted.push_back(segment);
  options_.want(rank, segment);
}

const std::byte* ShmTransport::mapped(Rank rank, SegmentId segment, uint64_t offset, uint64_t bytes) {
  Peer& peer = peers_[rank];
  const std::byte* data = nullptr;
  uint64_t length = 0;
  if (peer.in_process) {
    data = SegmentRegister::of_process().address(segment, &length);
  } else if (const auto known = peer.segments.find(segment); known != peer.segments.end()) {
    if (known->second == nullptr) return nullptr;
    data = known->second->data();
    length = known->second->bytes();
  } else {
    want(peer, rank, segment);
  }
  if (data == nullptr || offset > length || bytes > length - offset) return nullptr;
  return data + offset;
}

// Whether the segment is mapped or has gone; else it is asked for.
bool ShmTransport::known(Rank rank, SegmentId segment) {
  Peer& peer = peers_[rank];
  if (segment == 0 || peer.segments.contains(segment)) return true;
  want(peer, rank, segment);
  return false;
}

uint64_t ShmTransport::entered(Rank rank) const {
  const Control* control = peers_[rank].control;
  if (control == nullptr) return 0;
  return std::max(control->lines[0].sequence.load(std::memory_order_acquire),
                  control->lines[1].sequence.load(std::memory_order_acquire));
}

void ShmTransport::ring_sleepers() {
  base::full_fence();
  for (const Rank rank : local_) {
    const Peer& peer = peers_[rank];
    if (peer.control->head.sleeping.load(std::memory_order_relaxed) != 0) net::Waker::ring(peer.bell.get());
  }
}

bool ShmTransport::prepare_sleep() {
  own().head.sleeping.store(1, std::memory_order_relaxed);
  base::full_fence();
  return true;
}

void ShmTransport::woke() { own().head.sleeping.store(0, std::memory_order_relaxed); }

// --- a collective operation

void ShmTransport::write_table(const Opening& opening, uint64_t parity) {
  const SegmentRegister& segments = SegmentRegister::of_process();
  TableHead head{static_cast<uint32_t>(opening.members.size()), static_cast<uint32_t>(opening.gives.size()), 0};
  std::vector<TableEntry> entries;
  std::vector<ListEntry> lists;
  for (const MemberMemory& member : opening.members) {
    for (const SpaceMemory& space : member.spaces) {
      TableEntry entry{0, 0, space.part_bytes, space.parts, 0};
      if (space.list == nullptr) {
        const auto place = segments.find(space.base, space.part_bytes * space.parts);
        entry.segment = place.id;
        entry.base = place.id != 0 ? place.offset : reinterpret_cast<uint64_t>(space.base);
      } else {
        entry.list = static_cast<uint32_t>(lists.size()) + 1;
        for (uint32_t part = 0; part < space.parts; ++part) {
          const Segment& piece = space.list[part];
          const auto place = segments.find(piece.data, piece.bytes);
          lists.push_back(
              {place.id, place.id != 0 ? place.offset : reinterpret_cast<uint64_t>(piece.data), piece.bytes});
        }
      }
      entries.push_back(entry);
    }
  }
  head.lists = lists.size();
  const uint64_t bytes = sizeof head + entries.size() * sizeof(TableEntry) + lists.size() * sizeof(ListEntry) +
                         2 * opening.gives.size() * sizeof(uint64_t);
  std::byte* to = own().tables[parity];
  LineDetail& detail = own().details[parity];
  detail.table_segment = 0;
  detail.table_bytes = bytes;
  if (bytes > kTableBytes) {
    auto& segment = big_table_[parity];
    if (segment == nullptr || segment->bytes() < bytes) {
      auto made = OwnedSegment::create(bytes * 2);
      // Without a table nobody can read this rank's memory: the peers wait until this rank's caller is told, at the
      // deadline.
      segment = made.ok() ? std::move(made).value() : nullptr;
    }
    to = segment != nullptr ? segment->data() : nullptr;
    detail.table_segment = segment != nullptr ? segment->id() : ~0ull;
  }
  if (to == nullptr) return;
  const auto put = [&to](const void* data, uint64_t size) {
    if (size > 0) std::memcpy(to, data, size);
    to += size;
  };
  put(&head, sizeof head);
  put(entries.data(), entries.size() * sizeof(TableEntry));
  put(lists.data(), lists.size() * sizeof(ListEntry));
  put(opening.gives.data(), opening.gives.size_bytes());
  put(opening.takes.data(), opening.takes.size_bytes());
}

void ShmTransport::begin(const Opening& opening) {
  take_offers();
  sequence_ = opening.sequence;
  fingerprint_ = fingerprint(opening.signature);
  arrived_ = 0;
  const uint64_t parity = sequence_ & 1;
  write_table(opening, parity);
  own().details[parity].signature = opening.signature;
  Line& line = own().lines[parity];
  line.fingerprint = fingerprint_;
  line.payload_bytes = 0;
  line.sequence.store(sequence_, std::memory_order_release);
  ring_sleepers();
}

std::span<const std::byte> ShmTransport::table_of(Rank rank) {
  const Control& control = *peers_[rank].control;
  const LineDetail& detail = control.details[sequence_ & 1];
  const uint64_t bytes = detail.table_bytes;
  if (detail.table_segment != 0) {
    const std::byte* table = mapped(rank, detail.table_segment, 0, bytes);
    return table == nullptr ? std::span<const std::byte>() : std::span(table, bytes);
  }
  return {control.tables[sequence_ & 1], std::min(bytes, kTableBytes)};
}

namespace {

// A peer's table, with bounds checked against its size.
struct TableView {
  const TableHead* head = nullptr;
  const TableEntry* entries = nullptr;
  const ListEntry* lists = nullptr;
  const uint64_t* gives = nullptr;
  const uint64_t* takes = nullptr;

  // False where there is no table, or not a whole one.
  static bool open(std::span<const std::byte> table, TableView* view) {
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
};

}  // namespace

bool ShmTransport::table_has_gone(Rank rank) const {
  const Peer& peer = peers_[rank];
  const SegmentId segment = peer.control->details[sequence_ & 1].table_segment;
  uint64_t bytes = 0;
  if (peer.in_process) return segment != 0 && SegmentRegister::of_process().address(segment, &bytes) == nullptr;
  const auto known = peer.segments.find(segment);
  return segment != 0 && known != peer.segments.end() && known->second == nullptr;
}

// Maps what the peer's table names; false while some of it is not here yet.
bool ShmTransport::resolve(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.resolved == sequence_) return true;
  TableView view;
  // A table that cannot be opened is on its way, or has gone with its owner, which then needed nobody any more.
  if (!TableView::open(table_of(rank), &view)) return table_has_gone(rank);
  bool all = true;
  if (!peer.in_process) {
    for (uint32_t i = 0; i < 3 * view.head->members; ++i) {
      const TableEntry& entry = view.entries[i];
      if (entry.list == 0) all &= known(rank, entry.segment);
    }
    for (uint64_t i = 0; i < view.head->lists; ++i) {
      const ListEntry& entry = view.lists[i];
      all &= known(rank, entry.segment);
    }
  }
  if (all) peer.resolved = sequence_;
  return all;
}

Gathering ShmTransport::gathered(Conflict* conflict) {
  const uint64_t parity = sequence_ & 1;
  while (arrived_ < local_.size()) {
    const uint64_t at = peers_[local_[arrived_]].control->lines[parity].sequence.load(std::memory_order_acquire);
    if (at < sequence_) return Gathering::waiting;
    if (at > sequence_) return Gathering::failed;
    ++arrived_;
  }
  if (find_conflict(conflict)) return Gathering::conflict;
  if (has_offers_.load(std::memory_order_acquire)) take_offers();
  bool ready = true;
  for (const Rank rank : local_) ready &= resolve(rank);
  if (!ready) return Gathering::waiting;
  if (find_pair_conflict(conflict)) return Gathering::conflict;
  return Gathering::complete;
}

// Every rank of the host sees the same lines, so every one comes to the same verdict. The most are taken to be right;
// among equals, the lowest rank.
bool ShmTransport::find_conflict(Conflict* conflict) {
  const uint64_t parity = sequence_ & 1;
  const auto print_of = [&](Rank rank) { return peers_[rank].control->lines[parity].fingerprint; };
  bool differ = false;
  for (const Rank rank : local_) differ |= print_of(rank) != fingerprint_;
  if (!differ) return false;

  std::vector<Rank> here = local_;
  here.insert(std::upper_bound(here.begin(), here.end(), options_.rank), options_.rank);
  Rank right = here.front();
  size_t most = 0;
  for (const Rank rank : here) {
    const auto same = std::count_if(here.begin(), here.end(), [&](Rank r) { return print_of(r) == print_of(rank); });
    if (static_cast<size_t>(same) <= most) continue;
    most = static_cast<size_t>(same);
    right = rank;
  }
  *conflict = Conflict();
  for (const Rank rank : here) {
    if (print_of(rank) != print_of(right)) conflict->differ.push_back(rank);
  }
  conflict->first = right;
  conflict->second = conflict->differ.front();
  conflict->first_signature = peers_[conflict->first].control->details[parity].signature;
  conflict->second_signature = peers_[conflict->second].control->details[parity].signature;
  return true;
}

bool ShmTransport::find_pair_conflict(Conflict* conflict) {
  const uint64_t parity = sequence_ & 1;
  TableView own_view;
  if (!TableView::open(table_of(options_.rank), &own_view) || own_view.head->pairs == 0) return false;
  std::vector<TableView> views(options_.size);
  views[options_.rank] = own_view;
  for (const Rank rank : local_) {
    if (!TableView::open(table_of(rank), &views[rank]) || views[rank].head->pairs != options_.size) {
      return false;
    }
  }
  for (Rank giver = 0; giver < options_.size; ++giver) {
    if (views[giver].head == nullptr) continue;
    for (Rank taker = 0; taker < options_.size; ++taker) {
      if (views[taker].head == nullptr || views[giver].gives[taker] == views[taker].takes[giver]) continue;
      *conflict = Conflict();
      conflict->first = giver;
      conflict->second = taker;
      conflict->first_signature = peers_[giver].control->details[parity].signature;
      conflict->second_signature = peers_[taker].control->details[parity].signature;
      conflict->differ = {giver, taker};
      conflict->sizes = true;
      conflict->gives = views[giver].gives[taker];
      conflict->takes = views[taker].takes[giver];
      return true;
    }
  }
  return false;
}

void ShmTransport::withdraw() {
  own().head.withdrawn.store(sequence_, std::memory_order_seq_cst);
  base::full_fence();
}

Located ShmTransport::locate(Rank rank, uint16_t member, plan::Space space, uint32_t part, uint64_t offset,
                             uint64_t bytes) {
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

bool ShmTransport::read(Rank rank, uint64_t address, std::byte* to, uint64_t bytes) {
  while (bytes > 0) {
    iovec local{to, bytes};
    iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = process_vm_readv(peers_[rank].pid, &local, 1, &remote, 1, 0);
    if (got <= 0) return false;
    to += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

bool ShmTransport::counts(Rank rank) {
  base::load_fence();
  return peers_[rank].control->head.withdrawn.load(std::memory_order_acquire) < sequence_;
}

void ShmTransport::notify(plan::Mark mark) {
  own().head.progress.store(progress_of(sequence_, mark), std::memory_order_release);
  ring_sleepers();
}

bool ShmTransport::notified(Rank rank, plan::Mark mark) {
  return peers_[rank].control->head.progress.load(std::memory_order_acquire) >= progress_of(sequence_, mark);
}

std::byte* ShmTransport::scratch(uint64_t bytes) {
  if (scratch_ == nullptr || scratch_->bytes() < bytes) {
    scratch_ = nullptr;
    auto made = OwnedSegment::create(std::max<uint64_t>(bytes + bytes / 4, 256 << 10));
    if (!made.ok()) return nullptr;
    scratch_ = std::move(made).value();
  }
  return scratch_->data();
}

// --- eager operations

void ShmTransport::begin_eager(uint64_t sequence, const Signature& signature, uint64_t print,
                               const SpaceMemory& payload) {
  sequence_ = sequence;
  fingerprint_ = print;
  arrived_ = 0;
  const uint64_t parity = sequence & 1;
  Line& line = own().lines[parity];
  const uint64_t bytes = payload.total();
  std::byte* to = bytes <= kInlinePayload ? line.payload : own().payloads[parity];
  payload.pieces(0, 0, bytes, [&to](const std::byte* data, uint64_t take) {
    std::memcpy(to, data, take);
    to += take;
  });
  own().details[parity].signature = signature;
  line.fingerprint = print;
  line.payload_bytes = bytes;
  line.sequence.store(sequence, std::memory_order_release);
  ring_sleepers();
}

const std::byte* ShmTransport::eager_payload(Rank rank, uint64_t sequence, uint64_t* theirs) {
  const Control& control = *peers_[rank].control;
  const Line& line = control.lines[sequence & 1];
  if (line.sequence.load(std::memory_order_acquire) < sequence) return nullptr;
  *theirs = line.fingerprint;
  return line.payload_bytes <= kInlinePayload ? line.payload : control.payloads[sequence & 1];
}

}  // namespace regroup::transport::shm
