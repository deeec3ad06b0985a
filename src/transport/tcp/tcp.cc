// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "net/socket.h"
#include "transport/tcp/connection.h"

namespace regroup::transport {

namespace {

using tcp::Connection;

// Up to this many streams are asked one by one; of more, epoll names those that have something.
constexpr size_t kAskEach = 8;
// Inboxes shrink where there are many.
constexpr size_t kManyStreams = 64;
// Between two ranks of one machine all that is on the way lies in memory. Left to itself, the kernel lets that grow to
// megabytes, and each byte has left the cache before the peer copies it out.
constexpr int kLocalSendBuffer = 256 * 1024;
constexpr uint64_t kInboxBytes = 64 * 1024, kSmallInboxBytes = 16 * 1024;

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TcpOptions options);
  ~TcpTransport() override;
  bool usable() const { return usable_; }

  std::string_view name() const override { return "tcp"; }
  bool one_sided(Rank) const override { return false; }

  void begin(const Opening& opening) override;
  Gathering gathered(Conflict* conflict) override;
  void end() override {}
  void withdraw() override {}  // nobody reads this rank's memory; its messages are cancelled one by one

  // One-sided steps: never called where one_sided() is false.
  Located locate(Rank, uint16_t, plan::Space, uint32_t, uint64_t, uint64_t) override {
    return unreachable(), Located{};
  }
  bool read(Rank, uint64_t, std::byte*, uint64_t) override { return unreachable(), false; }
  bool counts(Rank) override { return unreachable(), false; }
  void notify(plan::Mark) override { unreachable(); }
  bool notified(Rank, plan::Mark) override { return unreachable(), false; }
  std::byte* scratch(uint64_t bytes) override;

  void post_send(Message& message) override { connection(message.peer).post_send(message); }
  void post_receive(Message& message) override { connection(message.peer).post_receive(message); }
  void cancel(Message& message) override { connection(message.peer).cancel(message); }
  Rank announced(uint32_t tag, std::span<const uint64_t> sequences) override;

  bool progress() override;
  bool prepare_sleep() override;
  void woke() override {}

 private:
  static void unreachable() { REGROUP_ASSERT(!"one-sided step on a transport of messages"); }

  Connection& connection(Rank peer) {
    REGROUP_ASSERT(peer < connections_.size() && connections_[peer] != nullptr);
    return *connections_[peer];
  }
  enum class Which : uint8_t { unblocked, all };
  bool flush(Which which);
  bool read_streams();
  bool read(Connection& connection);
  void report_lost();
  void watch(Connection& connection, bool writes);
  void linger();

  TcpOptions options_;
  tcp::Shared shared_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by rank
  std::vector<Connection*> live_;
  std::vector<Connection*> lost_;  // not yet reported
  // All streams; the waker watches this one descriptor.
  base::Fd epoll_;
  bool usable_ = false;
  tcp::AlignedBytes scratch_;
  uint64_t scratch_bytes_ = 0;
};

TcpTransport::TcpTransport(TcpOptions options) : options_(std::move(options)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  shared_.stamp = {options_.token, options_.epoch};
  shared_.rank = options_.rank;
  shared_.on_late_conflict = options_.on_late_conflict;
  connections_.resize(options_.size);
  const uint64_t inbox = options_.size <= kManyStreams ? kInboxBytes : kSmallInboxBytes;
  for (Rank peer = 0; peer < options_.size && peer < options_.streams.size(); ++peer) {
    base::Fd& stream = options_.streams[peer];
    if (peer == options_.rank || !stream.valid()) continue;
    const int on = 1;
    ::setsockopt(stream.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // fails on Unix sockets, which need it not
    if (net::within_machine(stream.get())) net::bound_send_buffer(stream.get(), kLocalSendBuffer);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = peer;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.get(), &event);
    connections_[peer] = std::make_unique<Connection>(peer, std::move(stream), inbox, shared_);
    live_.push_back(connections_[peer].get());
  }
  usable_ = epoll_.valid() && (options_.waker == nullptr || options_.waker->watch(epoll_.get(), false).ok());
}

TcpTransport::~TcpTransport() {
  linger();
  if (options_.waker != nullptr) options_.waker->forget(epoll_.get());
}

void TcpTransport::begin(const Opening& opening) {
  shared_.sequence = opening.sequence;
  shared_.signature = opening.signature;
  shared_.fingerprint = fingerprint(opening.signature);
  shared_.conflicting = false;
  shared_.past[shared_.sequence % std::size(shared_.past)] = {shared_.sequence, shared_.fingerprint};
  for (const auto& each : connections_) {
    if (each != nullptr) each->begin();
  }
}

Gathering TcpTransport::gathered(Conflict* conflict) {
  if (!shared_.conflicting) return Gathering::complete;
  if (conflict != nullptr) *conflict = shared_.conflict;
  return Gathering::conflict;
}

std::byte* TcpTransport::scratch(uint64_t bytes) {
  if (bytes > scratch_bytes_ || scratch_ == nullptr) {
    scratch_.reset();
    scratch_bytes_ = 0;
    void* const memory = ::operator new(std::max<uint64_t>(bytes, 4096), std::align_val_t{64}, std::nothrow);
    if (memory == nullptr) return nullptr;
    scratch_.reset(static_cast<std::byte*>(memory));
    scratch_bytes_ = std::max<uint64_t>(bytes, 4096);
  }
  return scratch_.get();
}

Rank TcpTransport::announced(uint32_t tag, std::span<const uint64_t> sequences) {
  const Rank ranks = static_cast<Rank>(std::min(sequences.size(), connections_.size()));
  for (Rank peer = 0; peer < ranks; ++peer) {
    if (connections_[peer] == nullptr) continue;
    if (connections_[peer]->announced({MessageKey::Lane::pairwise, tag, sequences[peer], 0})) return peer;
  }
  return plan::kNoRank;
}

bool TcpTransport::progress() {
  // A socket that was full is tried once a turn: mostly it still is, until the peer reads.
  bool moved = flush(Which::unblocked);
  moved = read_streams() || moved;
  moved = flush(Which::all) || moved;
  report_lost();
  return moved;
}

bool TcpTransport::flush(Which which) {
  bool moved = false;
  std::vector<Connection*>& sending = shared_.sending;
  for (size_t index = 0; index < sending.size();) {
    Connection& each = *sending[index];
    if (which == Which::unblocked && each.blocked()) {
      ++index;
      continue;
    }
    const bool was_lost = each.lost();
    moved = each.flush() || moved;
    if (each.lost() && !was_lost) lost_.push_back(&each);
    if (each.pending()) {
      ++index;
      continue;
    }
    each.listed = false;
    if (each.watching_writes && !each.lost()) watch(each, false);
    sending[index] = sending.back();
    sending.pop_back();
  }
  return moved;
}

bool TcpTransport::read_streams() {
  bool moved = false;
  if (live_.size() <= kAskEach) {
    for (Connection* each : live_) moved = read(*each) || moved;
    return moved;
  }
  epoll_event events[64];
  const int count = ::epoll_wait(epoll_.get(), events, 64, 0);
  for (int index = 0; index < count; ++index) moved = read(*connections_[events[index].data.u32]) || moved;
  return moved;
}

bool TcpTransport::read(Connection& connection) {
  if (connection.lost()) return false;
  const bool moved = connection.read();
  if (connection.lost()) lost_.push_back(&connection);
  return moved;
}

void TcpTransport::report_lost() {
  while (!lost_.empty()) {
    Connection& connection = *lost_.back();
    lost_.pop_back();
    live_.erase(std::find(live_.begin(), live_.end(), &connection));
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd(), nullptr);
    connection.close();
    if (options_.on_lost) options_.on_lost(connection.peer(), connection.loss());
  }
}

bool TcpTransport::prepare_sleep() {
  if (!lost_.empty()) return false;
  for (Connection* each : shared_.sending) {
    if (!each->blocked()) return false;  // not tried yet
    if (!each->watching_writes) watch(*each, true);
  }
  return true;
}

// A socket that is closed with something unread in it resets the stream, and the peer loses what it has not been sent
// yet: so stay until the peers' kernels have it all.
void TcpTransport::linger() {
  std::vector<int> open;
  bool broken = options_.in_a_hurry != nullptr && options_.in_a_hurry->load();
  for (const auto& each : connections_) {
    if (each == nullptr) continue;
    broken = broken || each->lost();
    if (each->fd() < 0) continue;
    int domain = 0;
    socklen_t length = sizeof(domain);
    ::getsockopt(each->fd(), SOL_SOCKET, SO_DOMAIN, &domain, &length);
    ::shutdown(each->fd(), SHUT_WR);
    if (domain != AF_UNIX) open.push_back(each->fd());  // Unix sockets hand over at once
  }
  const base::Time deadline = base::deadline_after(broken ? std::chrono::milliseconds(0) : options_.linger);
  const auto taken = [](int fd) {
    int unsent = 0;  // or sent and not acknowledged; 1 is the end itself, whose acknowledgement may be delayed
    return ::ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent <= 1;
  };
  for (;;) {
    std::erase_if(open, taken);
    if (open.empty() || base::Clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void TcpTransport::watch(Connection& connection, bool writes) {
  epoll_event event{};
  event.events = EPOLLIN | (writes ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  event.data.u32 = connection.peer();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd(), &event);
  connection.watching_writes = writes;
}

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(TcpOptions options) {
  auto transport = std::make_unique<TcpTransport>(std::move(options));
  return transport->usable() ? std::move(transport) : nullptr;
}

}  // namespace regroup::transport
