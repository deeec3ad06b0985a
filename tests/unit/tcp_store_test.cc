// SPDX-License-Identifier: Apache-2.0
// The TCP store's wire format byte by byte, and how it bears strangers, limits and deadlines. What its calls mean is
// tested with all other stores.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "net/address.h"
#include "net/socket.h"
#include "regroup/store.h"
#include "store/tcp_store_engine.h"
#include "store/tcp_wire.h"

namespace regroup::store {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

const std::string kHello = "\x00\xCE\xF7\x85\x3C"s;

// A length and the bytes, as strings travel.
std::string str(const std::string& text) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(text.size() >> (8 * i));
  return out + text;
}
std::string i64(int64_t value) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  return out;
}

// An engine and its clients, without sockets.
class StoreEngine : public testing::Test {
 protected:
  TcpStoreEngine::Client client(bool introduced = true) {
    const TcpStoreEngine::Client made = next_++;
    engine_.connect(made);
    if (introduced) engine_.receive(made, kHello);
    return made;
  }
  // The reply to `command`.
  std::string say(TcpStoreEngine::Client to, const std::string& command) {
    engine_.receive(to, command);
    return heard(to);
  }
  std::string heard(TcpStoreEngine::Client client) { return std::exchange(engine_.output(client), {}); }

  TcpStoreEngine engine_;
  TcpStoreEngine::Client next_ = 1;
};

TEST_F(StoreEngine, EveryCommandByteByByte) {
  const auto c = client();
  EXPECT_EQ(say(c, "\x0D\x01\x02\x03\x04"s), "\x01\x02\x03\x04");
  EXPECT_EQ(say(c, "\x01"s + str("/k") + str("v")), "");
  EXPECT_EQ(say(c, "\x03"s + str("/k")), str("v"));
  EXPECT_EQ(say(c, "\x03"s + str("/none")), str(""));
  EXPECT_EQ(say(c, "\x02"s + str("/k") + str("v") + str("w")), str("w"));
  EXPECT_EQ(say(c, "\x02"s + str("/none") + str("x") + str("w")), str("x"));
  EXPECT_EQ(say(c, "\x04"s + str("init/") + i64(3)), i64(3));
  EXPECT_EQ(say(c, "\x04"s + str("init/") + i64(-5)), i64(-2));
  EXPECT_EQ(say(c, "\x03"s + str("init/")), str("-2"));
  EXPECT_EQ(say(c, "\x05"s + i64(2) + str("/k") + str("init/")), "\0"s);
  EXPECT_EQ(say(c, "\x05"s + i64(2) + str("/k") + str("/none")), "\1"s);
  EXPECT_EQ(say(c, "\x06"s + i64(1) + str("/k")), "\0"s);
  EXPECT_EQ(say(c, "\x07"s), i64(2));
  EXPECT_EQ(say(c, "\x09"s + str("/k") + str("!")), "");
  EXPECT_EQ(say(c, "\x0A"s + i64(2) + str("/k") + str("/none")), str("w!") + str(""));
  EXPECT_EQ(say(c, "\x0B"s + i64(2) + str("/a") + str("1") + str("/b") + str("2")), "");
  EXPECT_EQ(say(c, "\x11"s), i64(4) + str("/a") + str("/b") + str("/k") + str("init/"));
  EXPECT_EQ(say(c, "\x08"s + str("/a")), i64(1));
  EXPECT_EQ(say(c, "\x08"s + str("/a")), i64(0));
  EXPECT_EQ(say(c, "\x0C"s), "\1"s);
  EXPECT_EQ(say(c, "\x0E"s + str("/q") + str("one")), "");
  EXPECT_EQ(say(c, "\x0E"s + str("/q") + str("")), "");
  EXPECT_EQ(say(c, "\x10"s + str("/q")), i64(2));
  EXPECT_EQ(say(c, "\x06"s + i64(1) + str("/q")), "\0"s) << "a queue with something in it can be waited for";
  EXPECT_EQ(say(c, "\x0F"s + str("/q")), i64(2) + str("one"));
  EXPECT_EQ(say(c, "\x0F"s + str("/q")), i64(1) + str(""));
  EXPECT_EQ(say(c, "\x0F"s + str("/q")), i64(0));
  EXPECT_EQ(say(c, "\x10"s + str("/q")), i64(0));
  EXPECT_EQ(say(c, "\x12"s + str("/all") + i64(1)), "\0"s);
  EXPECT_FALSE(engine_.finished(c));
}

TEST_F(StoreEngine, AByteAtATimeAndAllAtOnce) {
  const std::string talk = kHello + "\x01"s + str("/k") + str("v") + "\x03"s + str("/k") + "\x07"s;
  const auto slow = client(false), fast = client(false);
  std::string reply;
  for (const char byte : talk) reply += say(slow, std::string(1, byte));
  EXPECT_EQ(reply, str("v") + i64(1));
  EXPECT_EQ(say(fast, talk), reply);
}

TEST_F(StoreEngine, WaitsAreAnsweredLater) {
  const auto waiter = client(), setter = client();
  EXPECT_EQ(say(waiter, "\x06"s + i64(3) + str("/a") + str("/b") + str("/a")), "");
  say(setter, "\x01"s + str("/a") + str(""));
  EXPECT_EQ(heard(waiter), "");
  // What it sends meanwhile is done afterwards.
  EXPECT_EQ(say(waiter, "\x07"s), "");
  say(setter, "\x04"s + str("/b") + i64(1));
  EXPECT_EQ(heard(waiter), "\0"s + i64(2));
}

TEST_F(StoreEngine, WhatWakes) {
  const auto waiter = client(), other = client();
  const std::string wait = "\x06"s + i64(1) + str("/k"), remove = "\x08"s + str("/k");
  for (const std::string& change :
       {"\x01"s + str("/k") + str(""), "\x02"s + str("/k") + str("") + str("x"), "\x04"s + str("/k") + i64(0),
        "\x09"s + str("/k") + str("x"), "\x0B"s + i64(1) + str("/k") + str("x"), "\x0E"s + str("/k") + str("x")}) {
    EXPECT_EQ(say(waiter, wait), "");
    say(other, change);
    EXPECT_EQ(heard(waiter), "\0"s) << static_cast<int>(change[0]);
    say(other, remove);
  }
}

TEST_F(StoreEngine, APushWakesOne) {
  const auto first = client(), second = client(), pusher = client();
  const std::string wait = "\x06"s + i64(1) + str("/q");
  say(first, wait);
  say(second, wait);
  say(pusher, "\x0E"s + str("/q") + str("1"));
  EXPECT_EQ(heard(first), "\0"s);
  EXPECT_EQ(heard(second), "");
  say(pusher, "\x0E"s + str("/q") + str("2"));
  EXPECT_EQ(heard(second), "\0"s);
}

TEST_F(StoreEngine, CancelledAndGoneWaiters) {
  const auto waiter = client(), setter = client();
  say(waiter, "\x06"s + i64(1) + str("/k"));
  EXPECT_EQ(say(waiter, "\x0C"s), "\1"s);
  say(setter, "\x01"s + str("/k") + str(""));
  EXPECT_EQ(heard(waiter), "") << "not woken after the cancellation";
  EXPECT_EQ(say(waiter, "\x0C"s), "\1"s);
  const auto gone = client();
  say(gone, "\x06"s + i64(1) + str("/other"));
  engine_.disconnect(gone);
  say(setter, "\x01"s + str("/other") + str(""));
}

TEST_F(StoreEngine, Barrier) {
  const auto a = client(), b = client(), c = client();
  const std::string come = "\x12"s + str("/b") + i64(2);
  EXPECT_EQ(say(a, come), "");
  EXPECT_EQ(say(a, "\x0C"s), "\1"s);
  EXPECT_EQ(say(b, come), "") << "who gave up does not count";
  engine_.disconnect(b);
  EXPECT_EQ(say(c, come), "");
  EXPECT_EQ(say(a, come), "\0"s);
  EXPECT_EQ(heard(c), "\0"s);
  EXPECT_EQ(say(a, come), "") << "it begins anew";
  const auto bad = client();
  say(bad, "\x12"s + str("/b") + i64(0));
  EXPECT_TRUE(engine_.finished(bad));
}

TEST_F(StoreEngine, LimitsCloseTheClient) {
  const std::string long_key(8193, 'k');
  const auto is_closed = [this](const std::string& command) {
    const auto c = client();
    say(c, command);
    return engine_.finished(c);
  };
  EXPECT_FALSE(is_closed("\x01"s + str(long_key.substr(1)) + str("")));
  EXPECT_TRUE(is_closed("\x01"s + str(long_key)));
  EXPECT_TRUE(is_closed("\x01"s + i64(-1)));
  EXPECT_FALSE(is_closed("\x01"s + str("/k") + i64(8 << 20)));  // waits for the rest
  EXPECT_TRUE(is_closed("\x01"s + str("/k") + i64((8 << 20) + 1)));
  EXPECT_FALSE(is_closed("\x05"s + i64(128 * 1024)));
  EXPECT_TRUE(is_closed("\x05"s + i64(128 * 1024 + 1)));
  EXPECT_TRUE(is_closed("\x0B"s + i64(INT64_MAX)));
  EXPECT_TRUE(is_closed("\x13"s));
  EXPECT_TRUE(is_closed("\xff"s));
  EXPECT_TRUE(is_closed("\x00\x01\x02\x03\x04"s));
  EXPECT_TRUE(is_closed("\x01"s + str("/n") + str("no number") + "\x04"s + str("/n") + i64(1)));
}

TEST_F(StoreEngine, TheEarlyDialect) {
  const auto c = client(false);
  EXPECT_EQ(say(c, "\x00"s + str("/k") + str("v")), "");
  EXPECT_EQ(say(c, "\x01"s + str("/k") + str("v") + str("w")), str("w"));
  EXPECT_EQ(say(c, "\x02"s + str("/k")), str("w"));
  EXPECT_EQ(say(c, "\x03"s + str("init/") + i64(1)), i64(1));
  EXPECT_EQ(say(c, "\x04"s + i64(1) + str("/none")), "\1"s);
  EXPECT_EQ(say(c, "\x05"s + i64(1) + str("/k")), "\0"s);
  EXPECT_EQ(say(c, "\x06"s), i64(2));
  EXPECT_EQ(say(c, "\x08"s + str("/k")), i64(1));
  EXPECT_FALSE(engine_.finished(c));
  say(c, "\x02"s + str("/none"));
  EXPECT_TRUE(engine_.finished(c)) << "as its own server did";
}

TEST_F(StoreEngine, GarbageClosesOnlyItsSender) {
  std::mt19937 random(7);
  const auto good = client();
  for (int round = 0; round < 3000; ++round) {
    const auto c = client(round % 3 != 0);
    std::string noise(random() % 64, '\0');
    for (char& byte : noise) byte = static_cast<char>(random() % 4 == 0 ? random() : random() % 20);
    say(c, noise);
    if (round % 2 == 0) engine_.disconnect(c);
    heard(good);
  }
  EXPECT_EQ(say(good,
                "\x0D"
                "abcd"),
            "abcd");
}

class ServedStore : public testing::Test {
 protected:
  base::Fd dial() {
    const net::HostPort where = net::parse_host_port(server_->address()).value_or_throw();
    return net::connect_tcp(where.host, where.port, base::deadline_after(5s)).value_or_throw();
  }
  std::string url() const { return "tcp://" + server_->address(); }
  static void say(const base::Fd& fd, const std::string& text) {
    check(net::send_all(fd.get(), std::as_bytes(std::span(text)), base::deadline_after(5s)));
  }
  static std::string hear(const base::Fd& fd, size_t bytes) {
    std::string text(bytes, '\0');
    check(net::receive_all(fd.get(), std::as_writable_bytes(std::span(text)), base::deadline_after(5s)));
    return text;
  }
  static bool closed(const base::Fd& fd) {
    char byte;
    return net::wait_for(fd.get(), POLLIN, base::deadline_after(5s)) && ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
  }

  std::shared_ptr<StoreServer> server_ = serve_store("tcp://127.0.0.1:0").value_or_throw();
};

TEST_F(ServedStore, SpeaksOverARawSocket) {
  const base::Fd fd = dial();
  say(fd, kHello);
  say(fd,
      "\x0D"
      "1234");
  EXPECT_EQ(hear(fd, 4), "1234");
  say(fd, "\x04"s + str("init/") + i64(1));
  EXPECT_EQ(hear(fd, 8), i64(1));
  say(fd, "\x06"s + i64(1) + str("/late"));
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  check(store->set("late", "x"));
  EXPECT_EQ(hear(fd, 1), "\0"s);
  EXPECT_EQ(store->num_keys().value_or_throw(), 2);
}

TEST_F(ServedStore, StrangersHarmNobody) {
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  for (const std::string& noise : {"abc"s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"s, "\x16\x03\x01\x02\x00"s,
                                   kHello + "\xee"s, kHello + "\x01"s + i64(INT64_MAX)}) {
    const base::Fd fd = dial();
    say(fd, noise);
    EXPECT_TRUE(closed(fd)) << noise;
  }
  { const base::Fd gone = dial(); }
  const base::Fd silent = dial(), half = dial();
  say(half, kHello + "\x01"s + i64(4));
  check(store->set("key", "value"));
  EXPECT_EQ(store->get("key").value_or_throw(), "value");
}

TEST_F(ServedStore, LargeRepliesToAReaderThatIsSlow) {
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  const std::string large(kMaxValueBytes, 'v');
  check(store->set("large", large));
  const base::Fd fd = dial();
  say(fd, kHello + "\x03"s + str("/large") + "\x03"s + str("/large"));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(store->get("large").value_or_throw(), large);  // meanwhile others are served
  EXPECT_EQ(hear(fd, 8 + large.size()), str(large));
  EXPECT_EQ(hear(fd, 8 + large.size()), str(large));
}

TEST_F(ServedStore, AWaitDoesNotBlockTheSameClientsOtherThreads) {
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  std::vector<std::thread> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&] { EXPECT_EQ(store->get("key", 20s).value_or_throw(), "value"); });
  }
  std::this_thread::sleep_for(10ms);
  check(store->set("key", "value"));
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_F(ServedStore, SizesAreCheckedBeforeSending) {
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  EXPECT_EQ(store->set(std::string(8192, 'k'), "").code(), StatusCode::invalid_argument);
  EXPECT_EQ(store->set("k", std::string(kMaxValueBytes + 1, 'v')).code(), StatusCode::invalid_argument);
  check(store->set(std::string(8191, 'k'), ""));
  check(store->set("text", "no number"));
  EXPECT_EQ(store->add("text", 1).status().code(), StatusCode::io_error);
  check(store->set("after", "it goes on over another connection"));
}

TEST_F(ServedStore, UrlWithAPrefix) {
  const std::shared_ptr<Store> plain = connect_store(url() + "/").value_or_throw();
  const std::shared_ptr<Store> prefixed = connect_store(url() + "/job/7").value_or_throw();
  check(prefixed->set("key", "value"));
  EXPECT_EQ(plain->get("job/7/key").value_or_throw(), "value");
}

TEST_F(ServedStore, GoneIsAnError) {
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  std::thread stopper([this] {
    std::this_thread::sleep_for(10ms);
    server_.reset();
  });
  const base::Time start = base::Clock::now();
  EXPECT_EQ(store->get("key", 20s).status().code(), StatusCode::io_error);
  EXPECT_LT(base::Clock::now() - start, 5s);
  stopper.join();
}

TEST_F(ServedStore, AForkedChildDialsForItself) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
#endif
  const std::shared_ptr<Store> store = connect_store(url()).value_or_throw();
  check(store->set("parent", "1"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const bool good = store->get("parent", 5s).ok() && store->set("child", "2").ok();
    server_.reset();  // only its copy
    ::_exit(good ? 0 : 1);
  }
  EXPECT_EQ(store->get("child", 10s).value_or_throw(), "2");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  check(store->set("parent", "still served"));
}

TEST(TcpStore, NobodyHostsIt) {
  uint16_t port;
  { port = net::local_port(net::listen_tcp("127.0.0.1", 0).value_or_throw().get()); }
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const Status status = connect_store("tcp://" + address, 40ms).status();
  EXPECT_EQ(status.code(), StatusCode::timeout);
  EXPECT_NE(status.message().find(address), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(" ms"), std::string::npos) << status.message();
}

TEST(TcpStore, SomethingElseListens) {
  const base::Fd listener = net::listen_tcp("127.0.0.1", 0).value_or_throw();
  const base::Time start = base::Clock::now();
  const Status status =
      connect_store("tcp://127.0.0.1:" + std::to_string(net::local_port(listener.get())), 40ms).status();
  EXPECT_EQ(status.code(), StatusCode::timeout);
  EXPECT_NE(status.message().find("does not answer"), std::string::npos) << status.message();
  EXPECT_LT(base::Clock::now() - start, 5s);
}

TEST(TcpStore, ThePortIsTaken) {
  const std::shared_ptr<StoreServer> first = serve_store("tcp://127.0.0.1:0").value_or_throw();
  EXPECT_EQ(serve_store("tcp://" + first->address()).status().code(), StatusCode::io_error);
}

TEST(TcpStore, IsThereBeforeItsServer) {
  uint16_t port;
  { port = net::local_port(net::listen_tcp("127.0.0.1", 0).value_or_throw().get()); }
  const std::string url = "tcp://127.0.0.1:" + std::to_string(port);
  std::thread client([&] { check(connect_store(url, 20s).value_or_throw()->set("key", "value")); });
  std::this_thread::sleep_for(15ms);
  const std::shared_ptr<StoreServer> server = serve_store(url).value_or_throw();
  client.join();
}

}  // namespace
}  // namespace regroup::store
