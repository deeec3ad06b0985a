// SPDX-License-Identifier: Apache-2.0
// Frames on a control connection: {u32 payload length, u8 kind, u8 flags, u16 zero} little-endian, then the payload.
//
// A descriptor travels with the first byte of its frame (SCM_RIGHTS) and the frame's flags say so. The kernel never
// hands out the bytes of two descriptors' frames in one read, delivers a descriptor no later than its frame's first
// byte, and keeps the order; so the oldest descriptor not yet given out belongs to the first frame that claims one,
// however bytes are coalesced.
#include "net/control.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/fork.h"
#include "net/service.h"
#include "net/socket.h"
#include "net/vital.h"

namespace regroup::net {

namespace {

constexpr size_t kHeaderBytes = 8;
constexpr size_t kFrameBytes = kHeaderBytes + Control::kMaxPayload;
constexpr size_t kQueueBytes = 1 << 20;  // a peer that leaves more unread is not sent any more
constexpr size_t kInputBytes = 2 * kFrameBytes;
constexpr int kReadsATurn = 16;  // then the other connections have theirs
constexpr uint8_t kCarriesDescriptor = 1;
constexpr uint32_t kProcess = 1u << 31;              // in a service's key: of the peer's process, not of its connection
constexpr auto kFarewell = std::chrono::seconds(1);  // where the owner does not say

using Header = std::array<std::byte, kHeaderBytes>;

Header encode(ControlKind kind, uint32_t length, bool descriptor) {
  Header header{};
  for (int i = 0; i < 4; ++i) header[i] = static_cast<std::byte>(length >> (8 * i));
  header[4] = static_cast<std::byte>(kind);
  header[5] = static_cast<std::byte>(descriptor ? kCarriesDescriptor : 0);
  return header;
}

uint32_t decode_length(const std::byte* header) {
  uint32_t length = 0;
  for (int i = 0; i < 4; ++i) length |= std::to_integer<uint32_t>(header[i]) << (8 * i);
  return length;
}

bool known(ControlKind kind) { return kind >= ControlKind::state && kind <= ControlKind::vital; }

// Writes what fits; returns the bytes written, 0 where none fit, -1 (and errno) where the connection is broken. The
// descriptor goes with the first byte.
ssize_t write_some(int fd, std::span<const iovec> parts, int descriptor) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary{};
  if (descriptor >= 0) {
    message.msg_control = ancillary.data();
    message.msg_controllen = ancillary.size();
    cmsghdr* attached = CMSG_FIRSTHDR(&message);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(attached), &descriptor, sizeof descriptor);
  }
  for (;;) {
    const ssize_t written = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) return written;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return 0;
    const int error = errno;
    ::shutdown(fd, SHUT_RDWR);  // whatever it was, both ends shall see it; what was received stays readable
    errno = error;
    return -1;
  }
}

struct Outgoing {
  std::vector<std::byte> bytes;
  size_t sent = 0;
  base::Fd descriptor;
};

// What an error of a connection says about the peer: 0 stands for its orderly end.
Ending meaning(int error) {
  return error == 0 || error == EPIPE || error == ECONNRESET ? Ending::process_ended : Ending::host_silent;
}

// The process at the other end of a Unix socket, or nothing.
base::Fd process_of(int fd, int pid) {
  constexpr int kPeerPidfd = 77;    // SO_PEERPIDFD, of Linux 6.5: cannot be about another process of the same id
  constexpr long kPidfdOpen = 434;  // of Linux 5.3; the number is the same on all machines
  int process = -1;
  socklen_t length = sizeof process;
  if (::getsockopt(fd, SOL_SOCKET, kPeerPidfd, &process, &length) == 0) return base::Fd(process);
  return base::Fd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
}

struct Connection {
  base::ProcessFd fd;
  bool local = false;  // a Unix socket
  int pid = 0;

  // Under the channel's lock.
  std::deque<Outgoing> queue;
  size_t queued = 0;  // bytes not yet written
  bool broken = false;
  int error = 0;            // by which it was broken
  uint64_t handle = 0;      // with the service; 0 before the start
  base::ProcessFd process;  // a pidfd
  uint64_t process_handle = 0;
  bool lent = false;        // a word, for it to watch this process
  Vital::Ticket watch = 0;  // of its process

  // The service thread's alone.
  std::vector<std::byte> input;
  size_t filled = 0;
  std::deque<base::Fd> descriptors;  // received, not yet given out
};

bool is_neighbour(const Connection& at) { return at.fd.valid() && at.local && at.pid > 0 && at.pid != ::getpid(); }

// What the service thread and the owner share; outlives the Control where a callback destroys it.
class Channel final : public Service::Source {
 public:
  Channel(std::vector<base::Fd> connections, base::Duration liveness);

  bool has_neighbours() const;
  Status start(const std::shared_ptr<Service>& service, Vital* vital, const std::shared_ptr<Channel>& self);
  void start_failed();
  void set_handlers(Control::Handler handler, Control::Closed closed);
  bool send(Rank peer, ControlKind kind, std::span<const std::byte> payload, int descriptor);
  int pid_of(Rank peer) const { return connections_[peer].pid; }
  void ready(uint32_t key, uint32_t events) override;
  void stop();
  void say_farewell(base::Time deadline);

 private:
  void enqueue(Connection& to, std::span<const iovec, 2> parts, size_t written, base::Fd descriptor);
  void flush(Connection& to);
  void receive(Rank peer);
  bool parse(Rank peer);
  void take_descriptors(Connection& from, msghdr& message);
  void watch_process(Rank peer);
  void take_word(Rank peer, std::span<const std::byte> payload, const base::Fd& memory);
  void hang_up(Rank peer);
  Ending how_broken(Rank peer);
  void end(Rank peer, Ending ending);
  void forget_process(Connection& at);

  const uint64_t generation_ = base::fork_generation();
  std::mutex mutex_;
  std::vector<Connection> connections_;
  std::atomic<bool> stopping_{false};
  Service* service_ = nullptr;  // outlives the time during which descriptors are watched
  Vital* vital_ = nullptr;      // likewise; nullptr: there is none
  std::weak_ptr<Channel> self_;
  Control::Handler handler_;
  Control::Closed closed_;
};

Channel::Channel(std::vector<base::Fd> connections, base::Duration liveness) : connections_(connections.size()) {
  for (Rank peer = 0; peer < connections.size(); ++peer) {
    if (!connections[peer].valid()) continue;
    Connection& made = connections_[peer];
    const int fd = connections[peer].get();
    int family = 0;
    socklen_t length = sizeof family;
    ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
    made.local = family == AF_UNIX;
    if (made.local) {
      ucred credentials{};
      length = sizeof credentials;
      if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) made.pid = credentials.pid;
    } else {
      keep_alive(fd, liveness);
    }
    made.fd = base::ProcessFd(std::move(connections[peer]));
  }
}

void Channel::set_handlers(Control::Handler handler, Control::Closed closed) {
  handler_ = std::move(handler);
  closed_ = std::move(closed);
}

// Whether peers are other processes of this host.
bool Channel::has_neighbours() const { return std::any_of(connections_.begin(), connections_.end(), is_neighbour); }

Status Channel::start(const std::shared_ptr<Service>& service, Vital* vital, const std::shared_ptr<Channel>& self) {
  {
    const std::lock_guard lock(mutex_);
    service_ = service.get();
    vital_ = vital;
    self_ = self;
    for (Rank peer = 0; peer < connections_.size(); ++peer) {
      Connection& at = connections_[peer];
      if (!at.fd.valid()) continue;
      const uint32_t events = at.queue.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
      Result<uint64_t> handle = service->add(self, at.fd.get(), peer, events);
      if (!handle.ok()) return handle.status();
      at.handle = *handle;
    }
  }
  for (Rank peer = 0; peer < connections_.size(); ++peer) watch_process(peer);
  return {};
}

// Watches the process of a local peer, and lets it watch this one. What cannot be had is done without.
void Channel::watch_process(Rank peer) {
  std::optional<uint32_t> word;
  {
    const std::lock_guard lock(mutex_);
    Connection& at = connections_[peer];
    if (stopping_ || !is_neighbour(at)) return;
    at.process = base::ProcessFd(process_of(at.fd.get(), at.pid));
    if (at.process.valid()) {
      Result<uint64_t> handle = service_->add(self_.lock(), at.process.get(), peer | kProcess, EPOLLIN);
      if (handle.ok()) at.process_handle = *handle;
    }
    if (vital_ != nullptr) word = vital_->lend(at.pid);
    at.lent = word.has_value();
  }
  if (word.has_value()) send(peer, ControlKind::vital, std::as_bytes(std::span(&*word, 1)), vital_->descriptor());
}

void Channel::start_failed() {
  for (Rank peer = 0; peer < connections_.size(); ++peer) {
    if (connections_[peer].fd.valid()) end(peer, Ending::unusable);
  }
}

bool Channel::send(Rank peer, ControlKind kind, std::span<const std::byte> payload, int descriptor) {
  REGROUP_ASSERT(peer < connections_.size() && known(kind) && payload.size() <= Control::kMaxPayload);
  if (generation_ != base::fork_generation()) return false;
  Header header = encode(kind, static_cast<uint32_t>(payload.size()), descriptor >= 0);
  const std::array<iovec, 2> parts{iovec{header.data(), header.size()},
                                   iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
  const std::lock_guard lock(mutex_);
  Connection& to = connections_[peer];
  if (stopping_ || !to.fd.valid() || to.broken || (descriptor >= 0 && !to.local)) return false;
  ssize_t written = 0;
  if (to.queue.empty()) {
    written = write_some(to.fd.get(), parts, descriptor);
    if (written < 0) {
      to.broken = true;
      to.error = errno;
      return false;
    }
    if (static_cast<size_t>(written) == kHeaderBytes + payload.size()) return true;
  } else if (to.queued + kHeaderBytes + payload.size() > kQueueBytes) {
    return false;
  }
  base::Fd kept;
  if (descriptor >= 0 && written == 0) {
    kept = base::Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!kept.valid()) return false;
  }
  enqueue(to, parts, static_cast<size_t>(written), std::move(kept));
  return true;
}

void Channel::enqueue(Connection& to, std::span<const iovec, 2> parts, size_t written, base::Fd descriptor) {
  Outgoing frame;
  frame.bytes.reserve(parts[0].iov_len + parts[1].iov_len);
  for (const iovec& part : parts) {
    const auto* from = static_cast<const std::byte*>(part.iov_base);
    frame.bytes.insert(frame.bytes.end(), from, from + part.iov_len);
  }
  frame.sent = written;
  frame.descriptor = std::move(descriptor);
  to.queued += frame.bytes.size() - written;
  to.queue.push_back(std::move(frame));
  if (to.queue.size() == 1 && to.handle != 0) service_->change(to.handle, EPOLLIN | EPOLLOUT);
}

// Writes what the socket takes. With the lock held.
void Channel::flush(Connection& to) {
  while (!to.queue.empty() && !to.broken) {
    Outgoing& frame = to.queue.front();
    const iovec rest{frame.bytes.data() + frame.sent, frame.bytes.size() - frame.sent};
    const ssize_t written = write_some(to.fd.get(), std::span(&rest, 1), frame.descriptor.get());
    if (written == 0) return;
    if (written < 0) {
      to.broken = true;
      to.error = errno;
      break;
    }
    frame.descriptor.reset();
    frame.sent += static_cast<size_t>(written);
    to.queued -= static_cast<size_t>(written);
    if (frame.sent == frame.bytes.size()) to.queue.pop_front();
  }
  if (to.broken) {
    to.queue.clear();
    to.queued = 0;
  }
  if (to.handle != 0) service_->change(to.handle, EPOLLIN);
}

void Channel::ready(uint32_t key, uint32_t events) {
  if (stopping_) return;
  if ((key & kProcess) != 0) return hang_up(key & ~kProcess);
  if ((events & EPOLLOUT) != 0) {
    const std::lock_guard lock(mutex_);
    if (connections_[key].fd.valid()) flush(connections_[key]);
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) receive(key);
}

void Channel::receive(Rank peer) {
  Connection& from = connections_[peer];
  if (from.input.empty()) from.input.resize(kInputBytes);
  for (int turn = 0; turn < kReadsATurn && !stopping_; ++turn) {
    iovec into{from.input.data() + from.filled, from.input.size() - from.filled};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary;
    msghdr message{};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.data();
    message.msg_controllen = ancillary.size();
    const ssize_t got = ::recvmsg(from.fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return end(peer, got < 0 ? meaning(errno) : how_broken(peer));
    take_descriptors(from, message);
    from.filled += static_cast<size_t>(got);
    if (!parse(peer)) return;
  }
}

// One place in the queue for each message that carried descriptors, so that a frame whose descriptor was lost (this
// process has too many open) does not get its successor's.
void Channel::take_descriptors(Connection& from, msghdr& message) {
  bool first = true;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof fd);
      base::Fd received(fd);
      if (first) from.descriptors.push_back(std::move(received));  // a frame has one; others are closed
      first = false;
    }
  }
  if (first && (message.msg_flags & MSG_CTRUNC) != 0) from.descriptors.emplace_back();
}

// Hands out the whole frames received. False: the connection was ended, or the channel is being stopped.
bool Channel::parse(Rank peer) {
  Connection& from = connections_[peer];
  size_t at = 0;
  while (from.filled - at >= kHeaderBytes) {
    const std::byte* header = from.input.data() + at;
    const uint32_t length = decode_length(header);
    const auto kind = static_cast<ControlKind>(header[4]);
    if (length > Control::kMaxPayload || !known(kind)) return end(peer, Ending::unusable), false;
    if (from.filled - at < kHeaderBytes + length) break;
    base::Fd descriptor;
    if ((std::to_integer<uint8_t>(header[5]) & kCarriesDescriptor) != 0) {
      if (from.descriptors.empty()) return end(peer, Ending::unusable), false;
      descriptor = std::move(from.descriptors.front());
      from.descriptors.pop_front();
    }
    if (kind == ControlKind::leave) return end(peer, Ending::left), false;
    const std::span payload(header + kHeaderBytes, length);
    if (kind == ControlKind::vital) {
      take_word(peer, payload, descriptor);
    } else {
      handler_(peer, kind, payload, std::move(descriptor));
    }
    if (stopping_) return false;
    at += kHeaderBytes + length;
  }
  if (from.descriptors.size() > 1) return end(peer, Ending::unusable), false;  // at most the frame begun can own one
  std::memmove(from.input.data(), from.input.data() + at, from.filled - at);
  from.filled -= at;
  return true;
}

// What ended the connection on which nothing more comes: an error when it was last written to, or the peer.
Ending Channel::how_broken(Rank peer) {
  const std::lock_guard lock(mutex_);
  return meaning(connections_[peer].error);
}

// The peer tells by which word its process can be watched.
void Channel::take_word(Rank peer, std::span<const std::byte> payload, const base::Fd& memory) {
  uint32_t word = 0;
  if (payload.size() != sizeof word || vital_ == nullptr || !memory.valid()) return;
  std::memcpy(&word, payload.data(), sizeof word);
  const Vital::Ticket ticket = vital_->watch(memory, word, [channel = self_, peer] {
    if (const auto known = channel.lock()) known->hang_up(peer);
  });
  const std::lock_guard lock(mutex_);
  Connection& from = connections_[peer];
  if (from.watch == 0 && !stopping_) {
    from.watch = ticket;
  } else {
    vital_->unwatch(ticket);
  }
}

// The peer's process has ended. What it sent before is in the socket, and is read first: it may have left in order, or
// told of another failure, and then died.
void Channel::hang_up(Rank peer) {
  const std::lock_guard lock(mutex_);
  Connection& from = connections_[peer];
  if (stopping_) return;
  if (from.process_handle != 0) service_->remove(std::exchange(from.process_handle, 0));  // it would tell for ever
  if (from.fd.valid()) ::shutdown(from.fd.get(), SHUT_RDWR);
}

void Channel::end(Rank peer, Ending ending) {
  Connection& from = connections_[peer];
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (from.handle != 0) service_->remove(from.handle);
    from.handle = 0;
    from.fd.reset();
    from.queue.clear();
    from.queued = 0;
    forget_process(from);
  }
  from.descriptors.clear();
  from.input = {};
  closed_(peer, ending);
}

// With the lock held.
void Channel::forget_process(Connection& at) {
  if (at.process_handle != 0) service_->remove(std::exchange(at.process_handle, 0));
  at.process.reset();
  if (at.watch != 0) vital_->unwatch(std::exchange(at.watch, 0));
  if (std::exchange(at.lent, false)) vital_->give_back(at.pid);
}

void Channel::stop() {
  const std::lock_guard lock(mutex_);
  if (stopping_.exchange(true)) return;
  for (Connection& at : connections_) forget_process(at);
}

// No callback runs any more, or the caller is one.
void Channel::say_farewell(base::Time deadline) {
  const std::lock_guard lock(mutex_);
  Header header = encode(ControlKind::leave, 0, false);
  const std::array<iovec, 2> parts{iovec{header.data(), header.size()}, iovec{nullptr, 0}};
  for (Connection& to : connections_) {
    to.handle = 0;
    if (to.fd.valid() && !to.broken) enqueue(to, parts, 0, base::Fd());
  }
  do {
    std::vector<pollfd> waiting;
    std::vector<Connection*> whose;
    for (Connection& to : connections_) {
      if (!to.fd.valid() || to.broken) continue;
      flush(to);
      // Closing a TCP connection on which something comes in resets it and may discard what the peer has not
      // acknowledged.
      int unacknowledged = 0;
      if (!to.local) ::ioctl(to.fd.get(), SIOCOUTQ, &unacknowledged);
      if (to.broken || (to.queue.empty() && unacknowledged == 0)) continue;
      waiting.push_back({to.fd.get(), static_cast<short>(to.queue.empty() ? 0 : POLLOUT), 0});
      whose.push_back(&to);
    }
    if (waiting.empty()) break;
    ::poll(waiting.data(), waiting.size(), 1);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if ((waiting[i].revents & (POLLERR | POLLHUP)) != 0) whose[i]->broken = true;
    }
  } while (base::Clock::now() < deadline);
  for (Connection& to : connections_) to.fd.reset();
}

class ControlImpl final : public Control {
 public:
  ControlImpl(std::vector<base::Fd> connections, base::Duration liveness)
      : channel_(std::make_shared<Channel>(std::move(connections), liveness)) {}

  ~ControlImpl() override { leave(kFarewell); }

  void leave(base::Duration patience) override {
    if (generation_ != base::fork_generation()) return;  // the connections are the parent's, and closed here
    channel_->stop();
    if (service_ != nullptr) service_->remove_all(channel_.get());
    // The service thread has others to serve.
    const bool hurry = service_ != nullptr && service_->on_service_thread();
    channel_->say_farewell(hurry ? base::Clock::now() : base::deadline_after(patience));
  }

  void start(Handler handler, Closed closed) override {
    REGROUP_ASSERT(service_ == nullptr);
    channel_->set_handlers(std::move(handler), std::move(closed));
    Result<std::shared_ptr<Service>> service = Service::acquire();
    if (service.ok()) {
      service_ = *service;
      if (channel_->has_neighbours()) {
        if (Result<std::shared_ptr<Vital>> vital = Vital::acquire(); vital.ok()) vital_ = *vital;
      }
      if (channel_->start(service_, vital_.get(), channel_).ok()) return;
      service_->remove_all(channel_.get());
    }
    channel_->start_failed();
  }

  bool send(Rank peer, ControlKind kind, std::span<const std::byte> payload, int descriptor) override {
    return channel_->send(peer, kind, payload, descriptor);
  }

  int pid_of(Rank peer) const override { return channel_->pid_of(peer); }

 private:
  const uint64_t generation_ = base::fork_generation();
  std::shared_ptr<Service> service_;
  std::shared_ptr<Vital> vital_;
  std::shared_ptr<Channel> channel_;
};

}  // namespace

std::unique_ptr<Control> make_control(Rank rank, std::vector<base::Fd> connections, std::chrono::nanoseconds liveness) {
  REGROUP_ASSERT(rank < connections.size());
  return std::make_unique<ControlImpl>(std::move(connections), liveness);
}

}  // namespace regroup::net
