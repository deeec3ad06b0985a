// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#include "base/system_error.h"
#include "net/backoff.h"

namespace regroup::net {

namespace {

constexpr int kBacklog = 4096;  // the system cuts it to its own limit

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

Result<base::Fd> make_socket(int family) {
  base::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::system_error("cannot make a socket");
  if (family != AF_UNIX) set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return fd;
}

Result<base::Fd> listen_at(const SocketAddress& address) {
  Result<base::Fd> fd = make_socket(address.family());
  if (!fd.ok()) return fd;
  if (address.family() != AF_UNIX) set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_option(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd->get(), address.get(), address.length) != 0 || ::listen(fd->get(), kBacklog) != 0) {
    return base::system_error("cannot listen at " + address.text());
  }
  return fd;
}

// The first of `addresses` that accepts within the round, each given a share of the time. Notes the last refusal.
base::Fd try_each(const std::vector<SocketAddress>& addresses, base::Time deadline, std::string* refusal) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const base::Time now = base::Clock::now();
    const bool last = i + 1 == addresses.size();
    const base::Time until = last ? deadline : std::min(deadline, now + std::chrono::seconds(2));
    Result<base::Fd> fd = begin_connect(addresses[i]);
    if (!fd.ok()) {
      *refusal = fd.status().message();
      continue;
    }
    int error = ETIMEDOUT;
    if (wait_for(fd->get(), POLLOUT, until)) error = connect_outcome(fd->get());
    if (error == 0) return std::move(*fd);
    *refusal = addresses[i].text() + ": " + std::generic_category().message(error);
  }
  return base::Fd();
}

}  // namespace

Result<base::Fd> listen_tcp(const std::string& host, uint16_t port) {
  if (host.empty()) {
    SocketAddress any;
    any.storage.ss_family = AF_INET6;
    any.length = sizeof(sockaddr_in6);
    reinterpret_cast<sockaddr_in6*>(&any.storage)->sin6_port = htons(port);
    Result<base::Fd> both = listen_at(any);
    if (both.ok()) return both;
    return listen_tcp("0.0.0.0", port);
  }
  Result<std::vector<SocketAddress>> addresses = resolve(host, port);
  if (!addresses.ok()) return addresses.status();
  Result<base::Fd> fd = listen_at(addresses->front());
  for (size_t i = 1; !fd.ok() && i < addresses->size(); ++i) fd = listen_at(addresses.value()[i]);
  return fd;
}

Result<base::Fd> listen_unix(std::string_view name) {
  Result<SocketAddress> address = unix_address(name);
  if (!address.ok()) return address.status();
  return listen_at(*address);
}

uint16_t local_port(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return 0;
  if (address.family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  if (address.family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  return 0;
}

base::Fd accept_one(int listener, bool* exhausted) {
  for (;;) {
    base::Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);  // fails on Unix sockets, which do not need it
      return fd;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (exhausted != nullptr) *exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return fd;
  }
}

Result<base::Fd> begin_connect(const SocketAddress& address) {
  Result<base::Fd> fd = make_socket(address.family());
  if (!fd.ok()) return fd;
  if (::connect(fd->get(), address.get(), address.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return base::system_error(address.text());
  }
  return fd;
}

int connect_outcome(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Result<base::Fd> connect_tcp(const std::string& host, uint16_t port, base::Time deadline) {
  const base::Time start = base::Clock::now();
  std::string refusal = "no answer";
  for (Backoff backoff;;) {
    // A name may come to exist only when its host does, so looking it up is part of each try.
    Result<std::vector<SocketAddress>> addresses = resolve(host, port);
    if (!addresses.ok()) refusal = addresses.status().message();
    base::Fd fd = addresses.ok() ? try_each(*addresses, deadline, &refusal) : base::Fd();
    if (fd.valid()) return fd;
    if (base::Clock::now() >= deadline) break;
    std::this_thread::sleep_until(std::min(deadline, base::deadline_after(backoff.next())));
  }
  const auto tried = std::chrono::duration_cast<std::chrono::milliseconds>(base::Clock::now() - start).count();
  return Status(StatusCode::timeout, "nobody answers at " + format_host_port(host, port) + ": tried for " +
                                         std::to_string(tried) + " ms (last: " + refusal + ")");
}

void keep_alive(int fd, base::Duration silence) {
  const auto most = std::chrono::hours(24);  // fits every option
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<base::Duration>(silence, most)).count();
  const auto seconds = [ms](int64_t part) { return static_cast<int>(std::clamp<int64_t>(ms / part / 1000, 1, 3600)); };
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds(2));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds(4));
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::max<int64_t>(ms, 1)));  // also ends the asking
}

bool within_machine(int fd) {
  SocketAddress here, there;
  here.length = there.length = sizeof here.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here.storage), &here.length) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there.storage), &there.length) != 0) return false;
  if (here.family() != there.family()) return false;
  if (here.family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&here.storage)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&there.storage)->sin_addr.s_addr;
  }
  if (here.family() == AF_INET6) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(&here.storage)->sin6_addr,
                       &reinterpret_cast<const sockaddr_in6*>(&there.storage)->sin6_addr, sizeof(in6_addr)) == 0;
  }
  return false;
}

void bound_send_buffer(int fd, int bytes) { set_option(fd, SOL_SOCKET, SO_SNDBUF, bytes); }

bool wait_for(int fd, short events, base::Time deadline) {
  for (;;) {
    const base::Duration left = deadline - base::Clock::now();
    pollfd entry{fd, events, 0};
    const auto whole = std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count());
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(whole, INT_MAX)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // let the caller's read or write tell
    if (base::Clock::now() >= deadline) return false;
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, base::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(fd, POLLOUT, deadline)) return Status(StatusCode::timeout, "the peer did not read in time");
    } else if (errno != EINTR) {
      return base::system_error("cannot send");
    }
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, base::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return Status(StatusCode::io_error, "the peer closed the connection");
    } else if (errno == EAGAIN) {
      if (!wait_for(fd, POLLIN, deadline)) return Status(StatusCode::timeout, "the peer did not answer in time");
    } else if (errno != EINTR) {
      return base::system_error("cannot receive");
    }
  }
  return {};
}

}  // namespace regroup::net
