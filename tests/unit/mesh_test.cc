// SPDX-License-Identifier: Apache-2.0
#include "net/mesh.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "net/address.h"
#include "net/socket.h"

namespace regroup::net {
namespace {

using std::chrono::milliseconds;
using Mesh = std::vector<std::vector<base::Fd>>;

base::Time in(milliseconds time) { return base::deadline_after(time); }

struct Group {
  explicit Group(Rank size) {
    for (Rank rank = 0; rank < size; ++rank) {
      listeners.push_back(Listener::open("127.0.0.1", true).value_or_throw());
      peers.push_back({format_host_port("127.0.0.1", listeners[rank].port()), listeners[rank].unix_name(), true});
    }
  }

  Result<Mesh> build(Rank rank, base::Time deadline, uint64_t token = 42) {
    return connect_mesh(listeners[rank], rank, peers, {token, {LaneKind::local_unix, LaneKind::tcp}, deadline});
  }

  std::vector<Listener> listeners;
  std::vector<MeshPeer> peers;
};

int family(const base::Fd& fd) {
  int value = 0;
  socklen_t length = sizeof value;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &value, &length);
  return value;
}

// Every rank writes {own rank, lane} to every peer and reads the reverse.
void expect_connected(std::vector<Mesh>& meshes) {
  const Rank size = static_cast<Rank>(meshes.size());
  for (Rank rank = 0; rank < size; ++rank) {
    for (size_t lane = 0; lane < meshes[rank].size(); ++lane) {
      for (Rank peer = 0; peer < size; ++peer) {
        ASSERT_EQ(meshes[rank][lane][peer].valid(), peer != rank);
        if (peer == rank) continue;
        const char text[2] = {static_cast<char>(rank), static_cast<char>(lane)};
        ASSERT_EQ(::write(meshes[rank][lane][peer].get(), text, 2), 2);
      }
    }
  }
  for (Rank rank = 0; rank < size; ++rank) {
    for (size_t lane = 0; lane < meshes[rank].size(); ++lane) {
      for (Rank peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        std::byte text[2];
        ASSERT_TRUE(receive_all(meshes[rank][lane][peer].get(), text, in(milliseconds(5000))).ok());
        EXPECT_EQ(text[0], static_cast<std::byte>(peer));
        EXPECT_EQ(text[1], static_cast<std::byte>(lane));
      }
    }
  }
}

TEST(Address, Parses) {
  const auto parsed = [](std::string_view text) { return parse_host_port(text).value_or_throw(); };
  EXPECT_EQ(parsed("host:80").host, "host");
  EXPECT_EQ(parsed("10.0.0.1:65535").port, 65535);
  EXPECT_EQ(parsed("[::1]:7").host, "::1");
  EXPECT_EQ(parsed("[fe80::1%eth0]:7").host, "fe80::1%eth0");
  EXPECT_EQ(parsed(":0").host, "");
  for (const char* bad :
       {"", "host", "host:", "host:65536", "host:-1", "host:1x", "::1:7", "[::1]", "[]:1", "[::1:7", "a]:1"}) {
    EXPECT_EQ(parse_host_port(bad).status().code(), StatusCode::invalid_argument) << bad;
  }
  EXPECT_EQ(format_host_port("::1", 7), "[::1]:7");
  EXPECT_EQ(format_host_port("h", 7), "h:7");
}

TEST(Address, OfThisHost) {
  EXPECT_EQ(host_address("lo", "").value_or_throw(), "127.0.0.1");
  EXPECT_EQ(host_address("nosuch0,lo", "").value_or_throw(), "127.0.0.1");
  EXPECT_EQ(host_address("", "127.0.0.1").value_or_throw(), "127.0.0.1");
  EXPECT_EQ(host_address("nosuch0", "").status().code(), StatusCode::invalid_argument);
  EXPECT_FALSE(host_address("", "").value_or_throw().empty());
}

TEST(Socket, RefusedUntilTheDeadline) {
  uint16_t port;
  { port = Listener::open("127.0.0.1", false).value_or_throw().port(); }
  const Status status = connect_tcp("127.0.0.1", port, in(milliseconds(40))).status();
  EXPECT_EQ(status.code(), StatusCode::timeout);
  EXPECT_NE(status.message().find("127.0.0.1:" + std::to_string(port)), std::string::npos) << status.message();
}

TEST(Mesh, AllPairsOnAllLanes) {
  Group group(5);
  std::vector<Mesh> meshes(5);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < 5; ++rank) {
    threads.emplace_back([&, rank] { meshes[rank] = group.build(rank, in(milliseconds(10000))).value_or_throw(); });
  }
  for (std::thread& thread : threads) thread.join();
  expect_connected(meshes);
  EXPECT_EQ(family(meshes[0][0][1]), AF_UNIX);
  EXPECT_EQ(family(meshes[0][1][1]), AF_INET);
}

TEST(Mesh, OneRankNeedsNobody) {
  Group group(1);
  const Mesh mesh = group.build(0, in(milliseconds(0))).value_or_throw();
  EXPECT_EQ(mesh.size(), 2u);
}

TEST(Mesh, OtherHostsUseTcpAlone) {
  Group group(2);
  for (MeshPeer& peer : group.peers) peer.same_host = false;
  std::vector<Mesh> meshes(2);
  std::thread other([&] { meshes[1] = group.build(1, in(milliseconds(10000))).value_or_throw(); });
  meshes[0] = group.build(0, in(milliseconds(10000))).value_or_throw();
  other.join();
  expect_connected(meshes);
  EXPECT_EQ(family(meshes[0][0][1]), AF_INET);
}

TEST(Mesh, TheDeadlineNamesWhoDidNotCome) {
  Group group(4);
  group.listeners[2] = Listener();  // rank 2 is not there at all, rank 0 only listens
  Status statuses[4];
  std::thread other([&] { statuses[3] = group.build(3, in(milliseconds(80))).status(); });
  statuses[1] = group.build(1, in(milliseconds(80))).status();
  other.join();
  for (const Rank rank : {1u, 3u}) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::timeout);
    EXPECT_EQ(statuses[rank].ranks(), (std::vector<Rank>{0, 2})) << statuses[rank].message();
  }
  EXPECT_NE(statuses[3].message().find("refused"), std::string::npos) << statuses[3].message();
}

TEST(Mesh, ALateListenerIsWaitedFor) {
  Group group(2);
  std::vector<Mesh> meshes(2);
  const MeshOptions options{42, {LaneKind::tcp}, in(milliseconds(10000))};
  // The port is taken over by a listener that opens later: until then connections are refused.
  const uint16_t port = group.listeners[0].port();
  group.listeners[0] = Listener();
  std::thread other([&] { meshes[1] = connect_mesh(group.listeners[1], 1, group.peers, options).value_or_throw(); });
  std::this_thread::sleep_for(milliseconds(20));
  base::Fd late = listen_tcp("127.0.0.1", port).value_or_throw();
  base::Fd accepted;
  while (!accepted.valid()) accepted = accept_one(late.get());
  accepted.reset();  // dropped: the other tries again, and is answered by hand
  while (!accepted.valid()) accepted = accept_one(late.get());
  std::byte hello[24];
  ASSERT_TRUE(receive_all(accepted.get(), hello, options.deadline).ok());
  hello[3] = std::byte{'a'};  // the reply's magic: "rgpa"
  hello[16] = std::byte{0};   // from rank 0
  ASSERT_TRUE(send_all(accepted.get(), hello, options.deadline).ok());
  other.join();
  EXPECT_TRUE(meshes[1][0][0].valid());
}

base::Fd dial(const Listener& to) {
  return connect_tcp("127.0.0.1", to.port(), in(milliseconds(5000))).value_or_throw();
}

void say(const base::Fd& fd, std::string_view text) {
  ASSERT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// Whether the other side closes within five seconds.
bool dropped(const base::Fd& fd) {
  std::byte byte;
  return wait_for(fd.get(), POLLIN, in(milliseconds(5000))) && ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

TEST(Mesh, StrangersAreDroppedAndDoNoHarm) {
  Group group(2);
  std::vector<Mesh> meshes(2);
  std::thread host([&] { meshes[0] = group.build(0, in(milliseconds(10000))).value_or_throw(); });
  const base::Fd short_one = dial(group.listeners[0]), silent = dial(group.listeners[0]);
  say(short_one, "abc");
  EXPECT_TRUE(dropped(short_one));
  const base::Fd http = dial(group.listeners[0]);
  say(http, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(dropped(http));
  { const base::Fd gone = dial(group.listeners[0]); }
  // The right magic, another token; and a rank and a lane that do not exist.
  for (const auto& [token, rank, lane] :
       {std::tuple(43, 1, 0), std::tuple(42, 7, 0), std::tuple(42, 1, 200), std::tuple(42, 0, 1)}) {
    std::string hello("rgph\1\0\0\0", 8);
    hello += std::string{static_cast<char>(token), 0, 0, 0, 0, 0, 0, 0};
    hello += std::string{static_cast<char>(rank), 0, 0, 0, static_cast<char>(lane), 0, 0, 0};
    const base::Fd liar = dial(group.listeners[0]);
    say(liar, hello);
    EXPECT_TRUE(dropped(liar)) << token << ' ' << rank << ' ' << lane;
  }
  // Too many silent ones: the oldest make room.
  std::vector<base::Fd> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(dial(group.listeners[0]));
  EXPECT_TRUE(dropped(silent));
  meshes[1] = group.build(1, in(milliseconds(10000))).value_or_throw();
  host.join();
  expect_connected(meshes);
}

TEST(Mesh, AnotherEpochsMemberGetsNowhere) {
  Group group(2);
  Status statuses[2];
  std::thread other([&] { statuses[1] = group.build(1, in(milliseconds(60)), 1).status(); });
  statuses[0] = group.build(0, in(milliseconds(60)), 2).status();
  other.join();
  EXPECT_EQ(statuses[0].code(), StatusCode::timeout);
  EXPECT_EQ(statuses[1].ranks(), std::vector<Rank>{0});
}

}  // namespace
}  // namespace regroup::net
