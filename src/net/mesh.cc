// SPDX-License-Identifier: Apache-2.0
#include "net/mesh.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/system_error.h"
#include "net/backoff.h"
#include "net/poller.h"
#include "net/socket.h"

namespace regroup::net {

namespace {

constexpr uint32_t kHelloMagic = 0x68706772;  // "rgph"
constexpr uint32_t kReplyMagic = 0x61706772;  // "rgpa"
constexpr uint32_t kVersion = 1;
constexpr size_t kHelloBytes = 24;
// Between two questions whether to go on.
constexpr auto kInterruptionPause = std::chrono::milliseconds(2);
// A connection that has not said a whole hello by then is dropped: a member says it at once.
constexpr auto kHelloPatience = std::chrono::seconds(5);
// How long one of several addresses of a peer may take before the next is tried.
constexpr auto kAddressPatience = std::chrono::seconds(2);

using HelloBytes = std::array<std::byte, kHelloBytes>;

struct Hello {
  uint32_t magic = 0;
  uint32_t version = kVersion;
  uint64_t token = 0;
  uint32_t rank = 0;
  uint32_t lane = 0;
};

// Fields in order, each little-endian whatever the host's order.
HelloBytes encode(const Hello& hello) {
  HelloBytes bytes;
  size_t at = 0;
  const auto put = [&](uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) bytes[at++] = static_cast<std::byte>(value >> (8 * i));
  };
  put(hello.magic, 4);
  put(hello.version, 4);
  put(hello.token, 8);
  put(hello.rank, 4);
  put(hello.lane, 4);
  return bytes;
}

Hello decode(const HelloBytes& bytes) {
  size_t at = 0;
  const auto take = [&](size_t width) {
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= std::to_integer<uint64_t>(bytes[at++]) << (8 * i);
    return value;
  };
  Hello hello;
  hello.magic = static_cast<uint32_t>(take(4));
  hello.version = static_cast<uint32_t>(take(4));
  hello.token = take(8);
  hello.rank = static_cast<uint32_t>(take(4));
  hello.lane = static_cast<uint32_t>(take(4));
  return hello;
}

// A hello that arrives in pieces; never reads beyond it, for what follows belongs to the lane's owner.
struct Greeting {
  enum class State : uint8_t { partial, whole, broken };

  State read(int fd) {
    while (got < kHelloBytes) {
      const ssize_t more = ::recv(fd, bytes.data() + got, kHelloBytes - got, MSG_DONTWAIT);
      if (more > 0) {
        got += static_cast<size_t>(more);
      } else if (more < 0 && errno == EINTR) {
        continue;
      } else {
        return more < 0 && errno == EAGAIN ? State::partial : State::broken;
      }
    }
    return State::whole;
  }

  HelloBytes bytes{};
  size_t got = 0;
};

// A hello is far smaller than an empty socket's buffer, so a short write means a broken connection.
bool say(int fd, const Hello& hello) {
  const HelloBytes bytes = encode(hello);
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(kHelloBytes);
}

bool is_unix(int fd) {
  int family = 0;
  socklen_t length = sizeof family;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_UNIX;
}

// A connection that this rank makes.
struct Outgoing {
  enum class State : uint8_t { paused, connecting, greeting, done };

  Rank peer = 0;
  uint32_t lane = 0;
  std::vector<SocketAddress> addresses;
  size_t next_address = 0;
  State state = State::paused;
  base::Fd fd;
  Greeting reply;
  Backoff backoff;
  base::Time due{};  // paused: the next try; connecting: give this address up
  std::string refusal;
};

// A connection that somebody made to this rank and that has not introduced itself yet; the slot is free without a
// descriptor.
struct Incoming {
  base::Fd fd;
  Greeting hello;
  base::Time expires{};
};

class Builder {
 public:
  Builder(Listener& listener, Rank rank, std::span<const MeshPeer> peers, const MeshOptions& options)
      : listener_(listener), rank_(rank), peers_(peers), options_(options) {
    mesh_.resize(options.lanes.size());
    for (std::vector<base::Fd>& lane : mesh_) lane.resize(peers.size());
    missing_ = options.lanes.size() * (peers.size() - 1);
    strangers_.resize(std::min<size_t>(missing_, 1024) + 64);
  }

  Result<std::vector<std::vector<base::Fd>>> run();

 private:
  enum Source : uint64_t { listening = 0, outgoing = 1, incoming = 2 };
  static uint64_t tag(Source source, size_t index) { return (static_cast<uint64_t>(source) << 32) | index; }

  Status prepare();
  bool uses_unix(Rank peer, uint32_t lane) const {
    return options_.lanes[lane] == LaneKind::local_unix && peers_[peer].same_host && !peers_[peer].unix_name.empty() &&
           listener_.unix_socket() >= 0;
  }
  Hello introduction(uint32_t magic, uint32_t lane) const { return {magic, kVersion, options_.token, rank_, lane}; }
  base::Time handle_timers(base::Time now);
  void handle(const epoll_event& event);
  void start(Outgoing& to);
  void fail(Outgoing& to, std::string why);
  void on_outgoing(Outgoing& to);
  void on_listener(int fd);
  void on_incoming(Incoming& from);
  void drop(Incoming& from);
  bool welcome(const Hello& hello, int fd);
  Status timed_out() const;

  Listener& listener_;
  const Rank rank_;
  const std::span<const MeshPeer> peers_;
  const MeshOptions& options_;
  base::Fd epoll_;
  std::vector<std::vector<base::Fd>> mesh_;
  size_t missing_ = 0;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> strangers_;
  base::Time accept_again_{};  // not before then: descriptors ran out
  std::string other_version_;
};

Status Builder::prepare() {
  Result<base::Fd> epoll = make_epoll();
  if (!epoll.ok()) return epoll.status();
  epoll_ = std::move(*epoll);
  for (Rank peer = 0; peer < rank_; ++peer) {
    for (uint32_t lane = 0; lane < options_.lanes.size(); ++lane) {
      Outgoing& to = outgoing_.emplace_back();
      to.peer = peer;
      to.lane = lane;
      if (uses_unix(peer, lane)) {
        Result<SocketAddress> address = unix_address(peers_[peer].unix_name);
        if (!address.ok()) return address.status();
        to.addresses.push_back(*address);
        continue;
      }
      Result<HostPort> where = parse_host_port(peers_[peer].tcp_address);
      if (!where.ok()) return where.status();
      Result<std::vector<SocketAddress>> found = resolve(where->host, where->port);
      if (!found.ok()) return Status(found.status().code(), found.status().message(), {peer});
      to.addresses = std::move(*found);
    }
  }
  for (const int fd : {listener_.tcp(), listener_.unix_socket()}) {
    if (fd < 0) continue;
    if (Status status = epoll_watch(epoll_.get(), fd, EPOLLIN, tag(listening, static_cast<size_t>(fd))); !status.ok()) {
      return status;
    }
  }
  return {};
}

Result<std::vector<std::vector<base::Fd>>> Builder::run() {
  if (Status status = prepare(); !status.ok()) return status;
  std::array<epoll_event, 64> events;
  while (missing_ > 0) {
    const base::Time now = base::Clock::now();
    if (now >= options_.deadline) return timed_out();
    base::Time wake = handle_timers(now);
    if (options_.interrupted) {
      if (Status status = options_.interrupted(); !status.ok()) return status;
      wake = std::min(wake, now + kInterruptionPause);
    }
    const int ready = epoll_wait_until(epoll_.get(), events, wake);
    for (int i = 0; i < ready; ++i) handle(events[i]);
  }
  return std::move(mesh_);
}

// Does what is due and returns when something is next.
base::Time Builder::handle_timers(base::Time now) {
  base::Time next = options_.deadline;
  for (Outgoing& to : outgoing_) {
    if (to.state == Outgoing::State::paused && to.due <= now) start(to);
    if (to.state == Outgoing::State::connecting && to.due <= now) fail(to, "no answer");
    if (to.state == Outgoing::State::paused || to.state == Outgoing::State::connecting) next = std::min(next, to.due);
  }
  for (Incoming& from : strangers_) {
    if (!from.fd.valid()) continue;
    if (from.expires <= now) {
      drop(from);
    } else {
      next = std::min(next, from.expires);
    }
  }
  if (accept_again_ != base::Time()) {
    if (accept_again_ <= now) {
      accept_again_ = {};
      on_listener(listener_.tcp());
      if (listener_.unix_socket() >= 0) on_listener(listener_.unix_socket());
    }
    if (accept_again_ != base::Time()) next = std::min(next, accept_again_);
  }
  return next;
}

void Builder::handle(const epoll_event& event) {
  const size_t index = event.data.u64 & 0xffffffff;
  switch (static_cast<Source>(event.data.u64 >> 32)) {
    case listening:
      return on_listener(static_cast<int>(index));
    case outgoing:
      return on_outgoing(outgoing_[index]);
    case incoming:
      return on_incoming(strangers_[index]);
  }
}

void Builder::start(Outgoing& to) {
  const SocketAddress& address = to.addresses[to.next_address++ % to.addresses.size()];
  Result<base::Fd> fd = begin_connect(address);
  if (!fd.ok()) return fail(to, fd.status().message());
  to.fd = std::move(*fd);
  to.reply = {};
  to.state = Outgoing::State::connecting;
  to.due = to.addresses.size() > 1 ? base::deadline_after(kAddressPatience) : options_.deadline;
  const uint64_t data = tag(outgoing, static_cast<size_t>(&to - outgoing_.data()));
  if (Status status = epoll_watch(epoll_.get(), to.fd.get(), EPOLLOUT, data); !status.ok()) fail(to, status.message());
}

void Builder::fail(Outgoing& to, std::string why) {
  to.fd.reset();
  to.state = Outgoing::State::paused;
  to.due = base::deadline_after(to.backoff.next());
  to.refusal = std::move(why);
}

void Builder::on_outgoing(Outgoing& to) {
  if (to.state == Outgoing::State::connecting) {
    const std::string where = to.addresses[(to.next_address - 1) % to.addresses.size()].text();
    if (const int error = connect_outcome(to.fd.get()); error != 0) {
      return fail(to, where + ": " + std::generic_category().message(error));
    }
    if (!say(to.fd.get(), introduction(kHelloMagic, to.lane))) return fail(to, where + ": closed the connection");
    to.state = Outgoing::State::greeting;
    to.refusal = where + ": listens, but has not answered";
    const uint64_t data = tag(outgoing, static_cast<size_t>(&to - outgoing_.data()));
    const Status status = epoll_watch(epoll_.get(), to.fd.get(), EPOLLIN, data);
    if (!status.ok()) fail(to, status.message());
    return;
  }
  if (to.state != Outgoing::State::greeting) return;
  const Greeting::State state = to.reply.read(to.fd.get());
  if (state == Greeting::State::partial) return;
  if (state == Greeting::State::broken)
    return fail(to, "dropped by who listens there (a member of another group or epoch?)");
  const Hello reply = decode(to.reply.bytes);
  if (reply.magic != kReplyMagic || reply.version != kVersion || reply.token != options_.token ||
      reply.rank != to.peer || reply.lane != to.lane) {
    return fail(to, "answered by a stranger");
  }
  epoll_forget(epoll_.get(), to.fd.get());
  mesh_[to.lane][to.peer] = std::move(to.fd);
  to.state = Outgoing::State::done;
  --missing_;
}

void Builder::on_listener(int fd) {
  for (int budget = 256; budget > 0; --budget) {
    bool exhausted = false;
    base::Fd accepted = accept_one(fd, &exhausted);
    if (!accepted.valid()) {
      if (exhausted) accept_again_ = base::deadline_after(std::chrono::milliseconds(10));
      return;
    }
    auto slot = std::find_if(strangers_.begin(), strangers_.end(), [](const Incoming& at) { return !at.fd.valid(); });
    if (slot == strangers_.end()) {
      // Members introduce themselves at once, so the oldest silent one is the likeliest stranger.
      slot = std::min_element(strangers_.begin(), strangers_.end(),
                              [](const Incoming& a, const Incoming& b) { return a.expires < b.expires; });
      drop(*slot);
    }
    slot->fd = std::move(accepted);
    slot->hello = {};
    slot->expires = base::deadline_after(kHelloPatience);
    const uint64_t data = tag(incoming, static_cast<size_t>(slot - strangers_.begin()));
    if (!epoll_watch(epoll_.get(), slot->fd.get(), EPOLLIN, data).ok()) drop(*slot);
  }
}

void Builder::drop(Incoming& from) { from.fd.reset(); }

void Builder::on_incoming(Incoming& from) {
  if (!from.fd.valid()) return;
  const Greeting::State state = from.hello.read(from.fd.get());
  if (state == Greeting::State::partial) {
    // The magic comes first: three bytes of HTTP need not be waited for.
    const HelloBytes expected = encode(introduction(kHelloMagic, 0));
    if (std::memcmp(from.hello.bytes.data(), expected.data(), std::min<size_t>(from.hello.got, 4)) != 0) drop(from);
    return;
  }
  if (state == Greeting::State::broken) return drop(from);
  const Hello hello = decode(from.hello.bytes);
  if (!welcome(hello, from.fd.get()) || !say(from.fd.get(), introduction(kReplyMagic, hello.lane))) return drop(from);
  epoll_forget(epoll_.get(), from.fd.get());
  base::Fd& place = mesh_[hello.lane][hello.rank];
  // A second hello for the same place comes from a member whose first connection broke before our answer reached it.
  if (!place.valid()) --missing_;
  place = std::move(from.fd);
}

bool Builder::welcome(const Hello& hello, int fd) {
  if (hello.magic != kHelloMagic) return false;
  if (hello.version != kVersion) {
    other_version_ = "; a process that speaks version " + std::to_string(hello.version) + " of the protocol, not " +
                     std::to_string(kVersion) + ", was turned away";
    return false;
  }
  return hello.token == options_.token && hello.rank > rank_ && hello.rank < peers_.size() &&
         hello.lane < options_.lanes.size() && uses_unix(hello.rank, hello.lane) == is_unix(fd);
}

Status Builder::timed_out() const {
  std::vector<Rank> absent;
  std::string who;
  for (Rank peer = 0; peer < peers_.size(); ++peer) {
    if (peer == rank_) continue;
    const bool whole = std::all_of(mesh_.begin(), mesh_.end(), [&](const auto& lane) { return lane[peer].valid(); });
    if (whole) continue;
    absent.push_back(peer);
    who += (who.empty() ? "" : ", ") + std::to_string(peer);
    const auto at = std::find_if(outgoing_.begin(), outgoing_.end(), [&](const Outgoing& to) {
      return to.peer == peer && to.state != Outgoing::State::done && !to.refusal.empty();
    });
    if (at != outgoing_.end()) who += " (" + at->refusal + ")";
  }
  return Status(
      StatusCode::timeout,
      "rank" + std::string(absent.size() == 1 ? " " : "s ") + who + " did not connect by the deadline" + other_version_,
      std::move(absent));
}

}  // namespace

Result<Listener> Listener::open(const std::string& host, bool local) {
  Listener listener;
  Result<base::Fd> tcp = listen_tcp(host, 0);
  if (!tcp.ok()) return tcp.status();
  listener.tcp_ = std::move(*tcp);
  listener.port_ = local_port(listener.tcp());
  if (!local) return listener;
  // A name that nobody can take before us or guess.
  uint64_t random[2];
  if (::getrandom(random, sizeof random, 0) != sizeof random) return base::system_error("cannot draw a socket's name");
  char name[48];
  std::snprintf(name, sizeof name, "regroup-%016llx%016llx", static_cast<unsigned long long>(random[0]),
                static_cast<unsigned long long>(random[1]));
  listener.unix_name_ = name;
  Result<base::Fd> unix_listener = listen_unix(listener.unix_name_);
  if (!unix_listener.ok()) return unix_listener.status();
  listener.unix_ = std::move(*unix_listener);
  return listener;
}

Result<std::vector<std::vector<base::Fd>>> connect_mesh(Listener& listener, Rank rank, std::span<const MeshPeer> peers,
                                                        const MeshOptions& options) {
  REGROUP_ASSERT(rank < peers.size());
  return Builder(listener, rank, peers, options).run();
}

}  // namespace regroup::net
