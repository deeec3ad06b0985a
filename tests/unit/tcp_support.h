// SPDX-License-Identifier: Apache-2.0
// What the tests of the TCP transport share: connected pairs of sockets, transports on them, messages with memory.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

namespace regroup::transport {

enum class Wire { unix_socket, loopback };

inline std::pair<base::Fd, base::Fd> connected(Wire wire) {
  if (wire == Wire::unix_socket) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    return {base::Fd(fds[0]), base::Fd(fds[1])};
  }
  base::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  base::Fd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(one.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  base::Fd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(other.valid());
  return {std::move(one), std::move(other)};
}

// One rank: its transport, its waker, and whom it has lost.
struct Member {
  net::Waker waker = std::move(net::Waker::create().value());
  std::vector<std::pair<Rank, Status>> lost;
  std::unique_ptr<Transport> transport;

  void start(Rank rank, Rank size, std::vector<base::Fd> streams, uint64_t token = 7, uint32_t epoch = 1) {
    TcpOptions options;
    options.rank = rank;
    options.size = size;
    options.token = token;
    options.epoch = epoch;
    options.waker = &waker;
    options.linger = std::chrono::seconds(10);  // as long as a busy machine needs
    options.streams = std::move(streams);
    options.on_lost = [this](Rank peer, Status status) { lost.emplace_back(peer, std::move(status)); };
    transport = make_tcp_transport(std::move(options));
  }
  Transport* operator->() { return transport.get(); }
};

// A full mesh of `size` ranks, driven by one thread.
struct Mesh {
  explicit Mesh(Rank size, Wire wire = Wire::loopback) {
    std::vector<std::vector<base::Fd>> streams(size);
    for (auto& row : streams) row.resize(size);
    for (Rank low = 0; low < size; ++low) {
      for (Rank high = low + 1; high < size; ++high) {
        std::tie(streams[low][high], streams[high][low]) = connected(wire);
      }
    }
    for (Rank rank = 0; rank < size; ++rank) {
      members.push_back(std::make_unique<Member>());
      members.back()->start(rank, size, std::move(streams[rank]));
    }
  }
  Member& operator[](Rank rank) { return *members[rank]; }

  // Drives all until `done` holds; false after 20 s.
  template <typename Done>
  bool drive(Done done) {
    const base::Time deadline = base::deadline_after(std::chrono::seconds(20));
    while (!done()) {
      if (base::Clock::now() > deadline) return false;
      for (auto& member : members) (*member)->progress();
    }
    return true;
  }
  // Drives all until nothing has moved for a while.
  void settle() {
    for (int quiet = 0; quiet < 200; ++quiet) {
      for (auto& member : members) {
        if ((*member)->progress()) quiet = 0;
      }
    }
  }

  std::vector<std::unique_ptr<Member>> members;
};

inline MessageKey collective(uint64_t sequence, uint32_t number = 0) {
  return {MessageKey::Lane::collective, 0, sequence, number};
}
inline MessageKey pairwise(uint32_t tag, uint64_t sequence) { return {MessageKey::Lane::pairwise, tag, sequence, 0}; }

// A message with memory of its own, cut where `cuts` says, with guarded gaps between the pieces.
struct Parcel {
  static constexpr std::byte kGuard{0xa5};
  static constexpr uint64_t kGap = 48;

  Parcel(Rank peer, MessageKey key, uint64_t bytes, std::vector<uint64_t> cuts = {}) {
    cuts.push_back(bytes);
    memory.assign(bytes + kGap * (cuts.size() + 1), kGuard);
    uint64_t from = 0, at = kGap;
    for (uint64_t cut : cuts) {
      pieces.push_back({memory.data() + at, cut - from});
      at += cut - from + kGap;
      from = cut;
    }
    message.peer = peer;
    message.key = key;
    message.fingerprint = 99;
    message.bytes = bytes;
    message.segments = pieces;
  }
  Parcel(const Parcel&) = delete;

  Parcel& fill(uint32_t seed) {
    uint32_t state = seed * 2654435761u + 1;
    for (Segment& piece : pieces) {
      for (uint64_t i = 0; i < piece.bytes; ++i) {
        state = state * 1664525u + 1013904223u;
        piece.data[i] = static_cast<std::byte>(state >> 24);
      }
    }
    return *this;
  }
  std::vector<std::byte> content() const {
    std::vector<std::byte> all;
    for (const Segment& piece : pieces) all.insert(all.end(), piece.data, piece.data + piece.bytes);
    return all;
  }
  bool guards_hold() const {
    const std::byte* at = memory.data();
    for (const Segment& piece : pieces) {
      for (; at < piece.data; ++at) {
        if (*at != kGuard) return false;
      }
      at += piece.bytes;
    }
    for (; at < memory.data() + memory.size(); ++at) {
      if (*at != kGuard) return false;
    }
    return true;
  }
  bool done() const { return message.state == Message::State::done; }

  std::vector<std::byte> memory;
  std::vector<Segment> pieces;
  Message message;
};

// int32, sum, wrapping around: the kernels of the library are tested elsewhere.
inline void add_int32(void* to, const void* const* sources, uint32_t source_count, uint64_t count,
                      const reduction::FoldOptions&) {
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (uint32_t source = 0; source < source_count; ++source) sum += static_cast<const uint32_t*>(sources[source])[i];
    static_cast<uint32_t*>(to)[i] = sum;
  }
}

}  // namespace regroup::transport
