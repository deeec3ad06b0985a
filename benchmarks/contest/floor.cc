// SPDX-License-Identifier: Apache-2.0
#include "contest/floor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "reduce/copy.h"

namespace regroup::contest {

namespace {

constexpr uint64_t kMostBuffer = 64 << 20;  // more bytes go through it again
constexpr int kPollMs = 10000;

uint64_t others_share(Rank ranks, uint64_t bytes) { return bytes / ranks * (ranks - 1); }

}  // namespace

uint64_t least_bytes(Collective collective, Rank ranks, uint64_t bytes) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others_share(ranks, bytes);
    case Collective::reduce:
    case Collective::reduce_scatter:
      return others_share(ranks, bytes);
    case Collective::scatter:
      return bytes / ranks;
    case Collective::barrier:
      return 0;
    default:
      return bytes;
  }
}

uint64_t least_wire_bytes(Collective collective, Rank ranks, uint64_t bytes) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others_share(ranks, bytes);
    case Collective::broadcast:
      return bytes;
    case Collective::barrier:
      return 0;
    default:
      return others_share(ranks, bytes);
  }
}

CopyFloor::CopyFloor(uint64_t most_bytes)
    : from_(std::min(most_bytes, kMostBuffer), std::byte{1}), to_(from_.size(), std::byte{2}) {}

void CopyFloor::copy(uint64_t bytes, bool streaming) {
  while (bytes > 0) {
    const uint64_t now = std::min<uint64_t>(bytes, from_.size());
    if (streaming)
      reduction::copy_streaming(to_.data(), from_.data(), now);
    else
      std::memcpy(to_.data(), from_.data(), now);
    bytes -= now;
  }
}

void CopyFloor::choose(uint64_t bytes) {
  double took[2] = {1e30, 1e30};
  for (int round = 0; round < 4; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    copy(bytes, round % 2 == 1);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    took[round % 2] = std::min(took[round % 2], seconds);
  }
  streaming_ = took[1] < took[0];
}

void CopyFloor::run(uint64_t bytes) { copy(bytes, streaming_); }

SocketRing::SocketRing(Rank ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    base::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const bool bound = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                       ::listen(fd.get(), 1) == 0 &&
                       ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
    ports_.push_back(bound ? ntohs(address.sin_port) : 0);
    listeners_.push_back(std::move(fd));
  }
}

void SocketRing::close_all() { listeners_.clear(); }

bool SocketRing::connect(Rank rank, int send_buffer) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(ports_[(rank + 1) % ports_.size()]);
  right_ = base::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(right_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
  left_ = base::Fd(::accept4(listeners_[rank].get(), nullptr, nullptr, SOCK_CLOEXEC));
  listeners_.clear();
  for (const base::Fd* fd : {&right_, &left_}) {
    const int on = 1;
    if (!fd->valid() || ::fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0) return false;
    ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (send_buffer > 0) ::setsockopt(fd->get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  }
  return true;
}

bool SocketRing::exchange(std::byte* buffer, uint64_t buffer_bytes, uint64_t sends, uint64_t receives) {
  const uint64_t half = std::max<uint64_t>(1, buffer_bytes / 2);
  uint64_t to_send = sends, to_receive = receives;
  while (to_send > 0 || to_receive > 0) {
    bool moved = false;
    if (to_send > 0) {
      const uint64_t at = (sends - to_send) % half;
      const ssize_t sent = ::send(right_.get(), buffer + at, std::min(to_send, half - at), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (sent > 0) to_send -= static_cast<uint64_t>(sent);
      moved = sent > 0;
    }
    if (to_receive > 0) {
      const uint64_t at = (receives - to_receive) % half;
      const ssize_t got = ::recv(left_.get(), buffer + half + at, std::min(to_receive, half - at), 0);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
      if (got > 0) to_receive -= static_cast<uint64_t>(got);
      moved = moved || got > 0;
    }
    if (moved) continue;
    pollfd fds[2] = {{right_.get(), static_cast<short>(to_send > 0 ? POLLOUT : 0), 0},
                     {left_.get(), static_cast<short>(to_receive > 0 ? POLLIN : 0), 0}};
    if (::poll(fds, 2, kPollMs) == 0) return false;
  }
  return true;
}

}  // namespace regroup::contest
