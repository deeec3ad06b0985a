// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_transport.h"

#include <pthread.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fence.h"
#include "transport/shm/words.h"

namespace regroup::transport::shm {

namespace {

uint64_t random_word() {
  uint64_t word = 0;
  if (getrandom(&word, sizeof word, 0) != sizeof word) word = static_cast<uint64_t>(getpid()) << 32 | 1;
  return word | 1;
}

}  // namespace

uint64_t process_token() {
  static std::atomic<uint64_t> token = 0;
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, [] { token = 0; });
  uint64_t known = token.load();
  if (known != 0) return known;
  // Among threads that come at once, the first one's word counts.
  const uint64_t fresh = random_word();
  return token.compare_exchange_strong(known, fresh) ? fresh : known;
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
  threads_ |= peer.in_process;
  other_processes_ |= !peer.in_process;
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

void ShmTransport::offer(Rank peer, SegmentId segment, bool exists, base::Fd descriptor) {
  {
    std::lock_guard lock(offers_mutex_);
    offers_.push_back({peer, segment, std::move(descriptor), exists ? Offer::What::answer : Offer::What::freed});
  }
  has_offers_.store(true, std::memory_order_release);
  options_.waker->ring();
}

void ShmTransport::freed(Rank peer, SegmentId segment) {
  std::lock_guard lock(offers_mutex_);
  offers_.push_back({peer, segment, base::Fd(), Offer::What::freed});
  has_offers_.store(true, std::memory_order_release);
}

void ShmTransport::left(Rank peer) {
  std::lock_guard lock(offers_mutex_);
  offers_.push_back({peer, 0, base::Fd(), Offer::What::left});
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
    if (offer.what == Offer::What::left) {
      peer.left = true;
    } else if (offer.what == Offer::What::answer) {
      if (!offer.descriptor.valid()) continue;
      auto mapping = MappedSegment::map(offer.descriptor);
      if (mapping.ok()) peer.segments[offer.segment] = std::move(mapping).value();
    } else {
      peer.segments.erase(offer.segment);
      peer.gone.push_back(offer.segment);
    }
  }
}

// Whether memory that a peer's table names can't be had any more. Its owner has then ended the operation, so nobody
// needs to read it: a rank that comes to it late goes on without.
bool ShmTransport::is_gone(const Peer& peer, SegmentId segment) const {
  return peer.left || std::find(peer.gone.begin(), peer.gone.end(), segment) != peer.gone.end();
}

// Before an operation is begun: what was freed until then, no table of it names.
void ShmTransport::forget_gone() {
  if (has_offers_.load(std::memory_order_acquire)) take_offers();
  for (const Rank rank : local_) peers_[rank].gone.clear();
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
    data = known->second->data();
    length = known->second->bytes();
  } else {
    want(peer, rank, segment);
  }
  if (data == nullptr || offset > length || bytes > length - offset) return nullptr;
  return data + offset;
}

uint64_t ShmTransport::entered(Rank rank) const {
  const Control* control = peers_[rank].control;
  if (control == nullptr) return 0;
  return std::max(control->lines[0].sequence.load(std::memory_order_acquire),
                  control->lines[1].sequence.load(std::memory_order_acquire));
}

ShmTransport::Entered ShmTransport::last_entered(Rank rank) const {
  Entered last;
  for (int tries = 0; tries < 4; ++tries) {  // it may be beginning others meanwhile
    last.sequence = entered(rank);
    if (last.sequence == 0) return last;
    const LineDetail& detail = peers_[rank].control->details[last.sequence & 1];
    last.signature = load_words(detail.signature);
    last.began = base::Time(base::Duration(detail.began.load(std::memory_order_relaxed)));
    base::load_fence();
    if (entered(rank) == last.sequence) break;
  }
  return last;
}

// After the line was published: peers can go on meanwhile, and what follows has to wait for that store anyway.
void ShmTransport::note_time(uint64_t parity) {
  own().details[parity].began.store(base::recent_tick().time_since_epoch().count(), std::memory_order_relaxed);
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

void ShmTransport::begin(const Opening& opening) {
  if (opening.sequence != sequence_) forget_gone();  // it may follow begin_pairs
  sequence_ = opening.sequence;
  fingerprint_ = fingerprint(opening.signature);
  arrived_ = 0;
  complete_ = overtaken_ = false;
  const uint64_t parity = sequence_ & 1;
  const bool all_mapped = write_table(opening, parity);
  store_words(&own().details[parity].signature, &opening.signature, sizeof(Signature));
  Line& line = own().lines[parity];
  line.fingerprint.store(fingerprint_, std::memory_order_relaxed);
  // Threads of one process read each other's ordinary memory as it is.
  const bool wanted = !all_mapped && other_processes_;
  line.shown.store(!opening.may_stage ? Shown::no_staging
                   : wanted           ? Shown::wants_staging
                                      : Shown::may_stage,
                   std::memory_order_release);  // the line may be there already: begin_pairs
  line.sequence.store(sequence_, std::memory_order_release);
  note_time(parity);
  ring_sleepers();
}

Gathering ShmTransport::gathered(Conflict* conflict) {
  if (complete_) return Gathering::complete;
  const uint64_t parity = sequence_ & 1;
  while (arrived_ < local_.size()) {
    const uint64_t at = peers_[local_[arrived_]].control->lines[parity].sequence.load(std::memory_order_acquire);
    if (at < sequence_) return Gathering::waiting;
    if (at > sequence_) return Gathering::failed;
    ++arrived_;
  }
  const bool differ = find_conflict(conflict);
  base::load_fence();
  for (const Rank rank : local_) {
    if (peers_[rank].control->lines[parity].sequence.load(std::memory_order_acquire) != sequence_)
      return Gathering::failed;
  }
  if (differ) return Gathering::conflict;
  if (tables_are_due()) return Gathering::waiting;
  if (has_offers_.load(std::memory_order_acquire)) take_offers();
  bool ready = true;
  for (const Rank rank : local_) ready &= resolve(rank);
  if (overtaken_) return Gathering::failed;
  if (!ready) return Gathering::waiting;
  if (find_pair_conflict(conflict)) return Gathering::conflict;
  staged_ = wants_staging();
  complete_ = true;
  return Gathering::complete;
}

// Whether some have opened the operation with a table, and others, who show their input, have yet to add theirs.
bool ShmTransport::tables_are_due() const {
  const uint64_t parity = sequence_ & 1;
  const bool own_table = has_table(own().lines[parity].shown.load(std::memory_order_relaxed));
  for (const Rank rank : local_) {
    if (has_table(peers_[rank].control->lines[parity].shown.load(std::memory_order_acquire)) != own_table) return true;
  }
  return false;
}

bool ShmTransport::owes_table(Rank rank) const {
  const Line& line = peers_[rank].control->lines[sequence_ & 1];
  return line.sequence.load(std::memory_order_acquire) == sequence_ &&
         !has_table(line.shown.load(std::memory_order_relaxed));
}

// Whether all can stage and some want to.
bool ShmTransport::wants_staging() const {
  const uint64_t parity = sequence_ & 1;
  bool wanted = own().lines[parity].shown.load(std::memory_order_relaxed) == Shown::wants_staging;
  bool possible = own().lines[parity].shown.load(std::memory_order_relaxed) != Shown::no_staging;
  for (const Rank rank : local_) {
    const Shown shown = peers_[rank].control->lines[parity].shown.load(std::memory_order_relaxed);
    wanted |= shown == Shown::wants_staging;
    possible &= shown != Shown::no_staging;
  }
  return wanted && possible;
}

// Every rank of the host sees the same lines, so every one comes to the same verdict. The most are taken to be right;
// among equals, the lowest rank.
bool ShmTransport::find_conflict(Conflict* conflict) {
  const uint64_t parity = sequence_ & 1;
  const auto print_of = [&](Rank rank) {
    return peers_[rank].control->lines[parity].fingerprint.load(std::memory_order_relaxed);
  };
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
  conflict->first_signature = load_words(peers_[conflict->first].control->details[parity].signature);
  conflict->second_signature = load_words(peers_[conflict->second].control->details[parity].signature);
  return true;
}

void ShmTransport::withdraw() {
  own().head.withdrawn.store(sequence_, std::memory_order_seq_cst);
  base::full_fence();
  await_readers();
}

// Reads between the two are announced in the reader's own segment; whoever takes memory back first says so and then
// looks for announcements, whoever reads announces it and then looks whether the memory was taken back.
void ShmTransport::begin_reading() {
  if (!threads_) return;
  std::atomic<uint32_t>& reading = own().head.reading;
  reading.store(reading.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  base::full_fence();
}

void ShmTransport::end_reading() {
  if (!threads_) return;
  std::atomic<uint32_t>& reading = own().head.reading;
  reading.store(reading.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// A block is the most that is read at once, so this takes microseconds.
void ShmTransport::await_readers() const {
  if (!threads_) return;
  for (const Rank rank : local_) {
    if (!peers_[rank].in_process) continue;
    const std::atomic<uint32_t>& reading = peers_[rank].control->head.reading;
    const uint32_t seen = reading.load(std::memory_order_acquire);
    while (seen % 2 != 0 && reading.load(std::memory_order_acquire) == seen) sched_yield();
  }
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

bool ShmTransport::begin_eager(uint64_t sequence, const Signature& signature, uint64_t print,
                               const SpaceMemory& payload, bool may_lend) {
  open_eager(sequence, print);
  const uint64_t parity = sequence & 1;
  Line& line = own().lines[parity];
  const uint64_t bytes = payload.total();
  Shown shown = bytes <= kInlinePayload ? Shown::in_line : Shown::behind;
  if (bytes >= kLendFrom && may_lend && lends_ && payload.list == nullptr) {
    const auto place = SegmentRegister::of_process().find(payload.base, bytes);
    if (place.id != 0) {
      shown = Shown::lent;
      const Lent lent{place.id, place.offset, bytes};
      std::memcpy(line.payload, &lent, sizeof lent);
    }
  }
  if (shown != Shown::lent) {
    std::byte* to = shown == Shown::in_line ? line.payload : own().payloads[parity];
    payload.pieces(0, 0, bytes, [&to](const std::byte* data, uint64_t take) {
      std::memcpy(to, data, take);
      to += take;
    });
  }
  publish_eager(signature, shown);
  return shown == Shown::lent;
}

void ShmTransport::begin_pairs(uint64_t sequence, const Signature& signature, uint64_t print, const SpaceMemory& input,
                               const SpaceMemory& output, uint64_t balance) {
  open_eager(sequence, print);
  const uint64_t parity = sequence & 1;
  const Rank size = options_.size;
  Line& line = own().lines[parity];
  std::memcpy(line.payload, &balance, sizeof balance);
  std::byte* behind = own().payloads[parity];
  std::byte* offsets = pair_offsets_behind(size) == 0 ? line.payload + sizeof balance : behind;
  uint32_t bytes = 0;
  for (Rank rank = 0; rank < size; ++rank) {
    std::memcpy(offsets + rank * sizeof bytes, &bytes, sizeof bytes);
    if (rank != options_.rank) bytes += static_cast<uint32_t>(input.bytes_of(rank));
  }
  const bool fits = pair_header(size) + bytes <= kInlinePayload;
  std::byte* to = fits ? line.payload + pair_header(size) : behind + pair_offsets_behind(size);
  for (Rank rank = 0; rank < size; ++rank) {
    const Segment part = input.part(rank);
    if (rank == options_.rank || part.bytes == 0) continue;
    std::memcpy(to, part.data, part.bytes);
    to += part.bytes;
  }
  write_sizes(input, output, parity);
  publish_eager(signature, fits ? Shown::in_line : Shown::behind);
}

void ShmTransport::open_eager(uint64_t sequence, uint64_t print) {
  if (has_offers_.load(std::memory_order_acquire)) forget_gone();
  sequence_ = sequence;
  fingerprint_ = print;
  arrived_ = 0;
  complete_ = overtaken_ = false;
}

void ShmTransport::publish_eager(const Signature& signature, Shown shown) {
  const uint64_t parity = sequence_ & 1;
  Line& line = own().lines[parity];
  store_words(&own().details[parity].signature, &signature, sizeof signature);
  line.shown.store(shown, std::memory_order_relaxed);
  line.fingerprint.store(fingerprint_, std::memory_order_relaxed);
  line.sequence.store(sequence_, std::memory_order_release);
  note_time(parity);
  ring_sleepers();
}

bool ShmTransport::eager_input(Rank rank, uint64_t sequence, bool needed, EagerInput* input) {
  const Control& control = *peers_[rank].control;
  const Line& line = control.lines[sequence & 1];
  if (line.sequence.load(std::memory_order_acquire) < sequence) return false;
  input->fingerprint = line.fingerprint.load(std::memory_order_relaxed);
  const Shown shown = line.shown.load(std::memory_order_relaxed);
  input->lent = shown == Shown::lent;
  if (!input->lent) {
    input->data = shown == Shown::in_line ? line.payload : control.payloads[sequence & 1];
    return true;
  }
  input->data = nullptr;
  // With a rank that called something else, nothing will be read.
  if (!needed || input->fingerprint != fingerprint_) return true;
  Lent lent{};
  std::memcpy(&lent, line.payload, sizeof lent);
  if (has_offers_.load(std::memory_order_acquire)) take_offers();
  input->data = mapped(rank, lent.segment, lent.offset, lent.bytes);
  return input->data != nullptr || is_gone(peers_[rank], lent.segment);
}

bool ShmTransport::pair_input(Rank rank, uint64_t sequence, EagerInput* input) {
  const Control& control = *peers_[rank].control;
  const Line& line = control.lines[sequence & 1];
  if (line.sequence.load(std::memory_order_acquire) < sequence) return false;
  input->fingerprint = line.fingerprint.load(std::memory_order_relaxed);
  if (input->fingerprint != fingerprint_) return true;
  const Shown shown = line.shown.load(std::memory_order_relaxed);
  input->planned = has_table(shown);
  if (input->planned) return true;
  const Rank size = options_.size;
  const std::byte* behind = control.payloads[sequence & 1];
  const std::byte* offsets = pair_offsets_behind(size) == 0 ? line.payload + sizeof input->balance : behind;
  uint32_t offset = 0;
  std::memcpy(&input->balance, line.payload, sizeof input->balance);
  std::memcpy(&offset, offsets + options_.rank * sizeof offset, sizeof offset);
  input->data =
      (shown == Shown::in_line ? line.payload + pair_header(size) : behind + pair_offsets_behind(size)) + offset;
  return true;
}

}  // namespace regroup::transport::shm
