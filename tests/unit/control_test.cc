// SPDX-License-Identifier: Apache-2.0
#include "net/control.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "net/mesh.h"
#include "net/socket.h"

namespace regroup::net {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr bool kForkWithThreads = false;
#else
constexpr bool kForkWithThreads = true;
#endif

std::pair<base::Fd, base::Fd> unix_pair() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  return {base::Fd(fds[0]), base::Fd(fds[1])};
}

std::pair<base::Fd, base::Fd> tcp_pair() {
  const base::Fd listener = listen_tcp("127.0.0.1", 0).value_or_throw();
  base::Fd there = connect_tcp("127.0.0.1", local_port(listener.get()), base::deadline_after(5s)).value_or_throw();
  wait_for(listener.get(), POLLIN, base::deadline_after(5s));
  return {accept_one(listener.get()), std::move(there)};
}

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::unique_ptr<Control> control_over(Rank rank, base::Fd peer) {
  std::vector<base::Fd> connections(2);
  connections[1 - rank] = std::move(peer);
  return make_control(rank, std::move(connections));
}

// Collects what one Control hears.
struct Ear {
  struct Frame {
    Rank from;
    ControlKind kind;
    std::string payload;
    base::Fd descriptor;
  };

  Control::Handler handler() {
    return [this](Rank from, ControlKind kind, std::span<const std::byte> payload, base::Fd descriptor) {
      const std::lock_guard lock(mutex);
      frames.push_back({from, kind, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()),
                        std::move(descriptor)});
      changed.notify_all();
    };
  }
  Control::Closed closed() {
    return [this](Rank peer, Ending ending) {
      const std::lock_guard lock(mutex);
      ends[peer].push_back(ending);
      changed.notify_all();
    };
  }
  bool wait_frames(size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 10s, [&] { return frames.size() >= count; });
  }
  bool wait_end(Rank peer) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 10s, [&] { return !ends[peer].empty(); });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Frame> frames;
  std::map<Rank, std::vector<Ending>> ends;
};

ino_t inode(int fd) {
  struct stat found {};
  EXPECT_EQ(::fstat(fd, &found), 0);
  return found.st_ino;
}

class ControlOver : public testing::TestWithParam<bool> {
 protected:
  std::pair<base::Fd, base::Fd> pair() const { return GetParam() ? unix_pair() : tcp_pair(); }
};
INSTANTIATE_TEST_SUITE_P(Sockets, ControlOver, testing::Bool(),
                         [](const auto& over) { return over.param ? "Unix" : "Tcp"; });

TEST_P(ControlOver, FramesArriveInOrderBothWays) {
  auto [a, b] = pair();
  Ear ears[2];
  std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
  EXPECT_TRUE(zero->send(1, ControlKind::ask, bytes("before the start")));
  zero->start(ears[0].handler(), ears[0].closed());
  one->start(ears[1].handler(), ears[1].closed());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(zero->send(1, ControlKind::state, bytes(std::to_string(i))));
  EXPECT_TRUE(one->send(0, ControlKind::notice, bytes(std::string(Control::kMaxPayload, 'x'))));
  EXPECT_TRUE(one->send(0, ControlKind::notice, {}));
  ASSERT_TRUE(ears[1].wait_frames(101));
  ASSERT_TRUE(ears[0].wait_frames(2));
  EXPECT_EQ(ears[1].frames[0].payload, "before the start");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ears[1].frames[i + 1].payload, std::to_string(i));
  EXPECT_EQ(ears[0].frames[0].payload.size(), Control::kMaxPayload);
  EXPECT_EQ(ears[0].frames[1].kind, ControlKind::notice);
  EXPECT_EQ(ears[0].frames[1].from, 1u);
  EXPECT_FALSE(zero->send(0, ControlKind::ask, {})) << "to itself";
  EXPECT_EQ(zero->pid_of(1), GetParam() ? ::getpid() : 0);
}

TEST_P(ControlOver, LeavingIsOrderlyAndFlushed) {
  auto [a, b] = pair();
  Ear ears[2];
  std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
  zero->start(ears[0].handler(), ears[0].closed());
  one->start(ears[1].handler(), ears[1].closed());
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(zero->send(1, ControlKind::state, bytes(std::string(4000, 'y'))));
  zero.reset();
  ASSERT_TRUE(ears[1].wait_end(0));
  EXPECT_EQ(ears[1].frames.size(), 50u);
  EXPECT_EQ(ears[1].ends[0], std::vector<Ending>{Ending::left});
  EXPECT_FALSE(one->send(0, ControlKind::ask, {}));
  one.reset();
  EXPECT_TRUE(ears[0].ends.empty());
}

TEST_P(ControlOver, AnEndWithoutLeaveIsNotOrderly) {
  auto [a, b] = pair();
  Ear ear;
  std::unique_ptr<Control> zero = control_over(0, std::move(a));
  zero->start(ear.handler(), ear.closed());
  b.reset();
  ASSERT_TRUE(ear.wait_end(1));
  EXPECT_EQ(ear.ends[1], std::vector<Ending>{Ending::process_ended});
}

TEST_P(ControlOver, NonsenseEndsTheConnection) {
  const std::string too_long("\1\20\0\0\1\0\0\0", 8), no_kind("\0\0\0\0\77\0\0\0", 8),
      no_descriptor("\0\0\0\0\7\1\0\0", 8);
  for (const std::string& nonsense : {too_long, no_kind, no_descriptor, std::string("GET / HTTP/1.1\r\n\r\n")}) {
    auto [a, b] = pair();
    Ear ear;
    std::unique_ptr<Control> zero = control_over(0, std::move(a));
    zero->start(ear.handler(), ear.closed());
    ASSERT_EQ(::write(b.get(), nonsense.data(), nonsense.size()), static_cast<ssize_t>(nonsense.size()));
    ASSERT_TRUE(ear.wait_end(1));
    EXPECT_EQ(ear.ends[1], std::vector<Ending>{Ending::unusable});
    EXPECT_TRUE(ear.frames.empty());
  }
}

TEST_P(ControlOver, AByteAtATime) {
  auto [a, b] = pair();
  Ear ear;
  std::unique_ptr<Control> zero = control_over(0, std::move(a));
  zero->start(ear.handler(), ear.closed());
  const std::string frames("\3\0\0\0\1\0\0\0abc\0\0\0\0\2\0\0\0", 19);
  for (const char byte : frames) {
    ASSERT_EQ(::write(b.get(), &byte, 1), 1);
    std::this_thread::sleep_for(200us);
  }
  ASSERT_TRUE(ear.wait_frames(2));
  EXPECT_EQ(ear.frames[0].payload, "abc");
  EXPECT_EQ(ear.frames[1].kind, ControlKind::ask);
}

TEST_P(ControlOver, APeerThatDoesNotReadFillsTheQueueOnly) {
  auto [a, b] = pair();
  Ear ears[2];
  std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
  zero->start(ears[0].handler(), ears[0].closed());
  const std::string payload(4000, 'z');
  size_t sent = 0;
  while (sent < 20000 && zero->send(1, ControlKind::state, bytes(payload))) ++sent;
  EXPECT_LT(sent, 20000u);
  EXPECT_GE(sent, 200u);
  one->start(ears[1].handler(), ears[1].closed());  // now it reads
  ASSERT_TRUE(ears[1].wait_frames(sent));
  EXPECT_TRUE(zero->send(1, ControlKind::ask, {}));
  ASSERT_TRUE(ears[1].wait_frames(sent + 1));
  EXPECT_EQ(ears[1].frames.back().kind, ControlKind::ask);
}

TEST(Control, DescriptorsStayWithTheirFrames) {
  auto [a, b] = unix_pair();
  Ear ear;
  std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
  std::vector<ino_t> sent;
  // Nobody reads yet, so that the frames lie coalesced in the socket and in the queue.
  for (int i = 0; i < 150; ++i) {
    const std::string payload = std::to_string(i) + std::string(static_cast<size_t>(i % 7) * 500, '.');
    base::Fd file;
    if (i % 3 == 0) file = base::Fd(::memfd_create("control test", MFD_CLOEXEC));
    sent.push_back(file.valid() ? inode(file.get()) : 0);
    ASSERT_TRUE(zero->send(1, ControlKind::descriptor, bytes(payload), file.get()));
  }
  zero->start([](Rank, ControlKind, auto, base::Fd) {}, [](Rank, Ending) {});
  one->start(ear.handler(), ear.closed());
  ASSERT_TRUE(ear.wait_frames(150));
  for (int i = 0; i < 150; ++i) {
    EXPECT_EQ(std::stoi(ear.frames[i].payload), i);
    EXPECT_EQ(ear.frames[i].descriptor.valid() ? inode(ear.frames[i].descriptor.get()) : 0, sent[i]) << i;
    if (ear.frames[i].descriptor.valid()) {
      EXPECT_EQ(::fcntl(ear.frames[i].descriptor.get(), F_GETFD), FD_CLOEXEC);
    }
  }
}

TEST(Control, NoDescriptorsOverTcp) {
  auto [a, b] = tcp_pair();
  std::unique_ptr<Control> zero = control_over(0, std::move(a));
  EXPECT_FALSE(zero->send(1, ControlKind::descriptor, {}, 0));
}

TEST(Control, MayBeDestroyedByItsOwnHandler) {
  auto [a, b] = unix_pair();
  std::atomic<int> calls{0};
  std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
  std::atomic<bool> gone{false};
  one->send(0, ControlKind::ask, {});
  one->send(0, ControlKind::ask, {});
  zero->start(
      [&](Rank, ControlKind, auto, base::Fd) {
        ++calls;
        zero.reset();
        gone = true;
      },
      [](Rank, Ending) {});
  while (!gone) std::this_thread::sleep_for(1ms);
  Ear ear;
  one->start(ear.handler(), ear.closed());  // a service thread again
  ASSERT_TRUE(ear.wait_end(0));
  EXPECT_EQ(ear.ends[0], std::vector<Ending>{Ending::left});
  EXPECT_EQ(calls, 1);
}

TEST(Control, NoHandlerRunsAfterDestruction) {
  for (int round = 0; round < 50; ++round) {
    auto [a, b] = unix_pair();
    std::atomic<bool> destroyed{false}, stop{false};
    std::atomic<int> late{0}, calls{0};
    std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
    const auto nothing = [](Rank, Ending) {};
    one->start([](Rank, ControlKind, auto, base::Fd) {}, nothing);
    zero->start(
        [&](Rank, ControlKind, auto, base::Fd) {
          ++calls;
          if (destroyed) ++late;
        },
        nothing);
    std::thread sender([&] {
      while (!stop) one->send(0, ControlKind::state, bytes("tick"));
    });
    while (calls == 0) std::this_thread::yield();
    zero.reset();
    destroyed = true;
    std::this_thread::sleep_for(100us);
    stop = true;
    sender.join();
    EXPECT_EQ(late, 0);
  }
}

TEST(Control, ManyGroupsManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 20; ++round) {
        auto [a, b] = (i + round) % 2 == 0 ? unix_pair() : tcp_pair();
        Ear ears[2];
        std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
        zero->start(ears[0].handler(), ears[0].closed());
        one->start(ears[1].handler(), ears[1].closed());
        for (int frame = 0; frame < 20; ++frame) zero->send(1, ControlKind::state, bytes("x"));
        EXPECT_TRUE(ears[1].wait_frames(20));
        zero.reset();
        EXPECT_TRUE(ears[1].wait_end(0));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Control, AForkedChildHidesNothingAndMakesItsOwn) {
  if (!kForkWithThreads) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  auto [a, b] = unix_pair();
  Ear ear;
  std::unique_ptr<Control> zero = control_over(0, std::move(a)), one = control_over(1, std::move(b));
  zero->start(ear.handler(), ear.closed());
  one->start([](Rank, ControlKind, auto, base::Fd) {}, [](Rank, Ending) {});
  int hold[2];
  ASSERT_EQ(::pipe2(hold, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::close(hold[1]);
    bool good = !one->send(0, ControlKind::ask, {});
    one.reset();
    auto [c, d] = unix_pair();
    Ear own;
    {
      std::unique_ptr<Control> left = control_over(0, std::move(c)), right = control_over(1, std::move(d));
      left->start(own.handler(), own.closed());
      good = good && right->send(0, ControlKind::ask, bytes("in the child")) && own.wait_frames(1);
    }
    char byte;
    [[maybe_unused]] const ssize_t end = ::read(hold[0], &byte, 1);  // lives until the parent has seen what it wants
    ::_exit(good ? 0 : 1);
  }
  ::close(hold[0]);
  one.reset();
  EXPECT_TRUE(ear.wait_end(1)) << "the child keeps the connection open";
  EXPECT_EQ(ear.ends[1], std::vector<Ending>{Ending::left});
  ::close(hold[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Two ranks that meet although a fork comes between them: where both listen is known before it.
class TwoProcesses {
 public:
  TwoProcesses() {
    for (int i = 0; i < 2; ++i) {
      listeners_.push_back(Listener::open("127.0.0.1", true).value_or_throw());
      peers_.push_back({"127.0.0.1:" + std::to_string(listeners_[i].port()), listeners_[i].unix_name(), true});
    }
  }
  std::unique_ptr<Control> connect(Rank rank) {
    auto mesh = connect_mesh(listeners_[rank], rank, peers_, options_).value_or_throw();
    return make_control(rank, std::move(mesh[0]));
  }

 private:
  std::vector<Listener> listeners_;
  std::vector<MeshPeer> peers_;
  const MeshOptions options_{7, {LaneKind::local_unix}, base::deadline_after(10s)};
};

TEST(Control, TheProcessAtTheOtherEnd) {
  if (!kForkWithThreads) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  TwoProcesses two;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::unique_ptr<Control> one = two.connect(1);
    one->start([](Rank, ControlKind, auto, base::Fd) {}, [](Rank, Ending) {});
    for (;;) ::pause();
  }
  std::unique_ptr<Control> zero = two.connect(0);
  EXPECT_EQ(zero->pid_of(1), child);
  Ear ear;
  zero->start(ear.handler(), ear.closed());
  ::kill(child, SIGKILL);
  EXPECT_TRUE(ear.wait_end(1));
  EXPECT_EQ(ear.ends[1], std::vector<Ending>{Ending::process_ended});
  ::waitpid(child, nullptr, 0);
}

// A child that was forked behind the library's back holds the victim's connection open, so no hang-up comes.
TEST(Control, AProcessEndsThoughItsChildHoldsItsSocket) {
  if (!kForkWithThreads) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  TwoProcesses two;
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    std::unique_ptr<Control> one = two.connect(1);
    const pid_t held = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (held == 0) {
      ::alarm(60);
      for (;;) ::pause();
    }
    [[maybe_unused]] const ssize_t written = ::write(told[1], &held, sizeof held);
    one->start([](Rank, ControlKind, auto, base::Fd) {}, [](Rank, Ending) {});
    one->send(0, ControlKind::notice, bytes("last words"));
    for (;;) ::pause();
  }
  std::unique_ptr<Control> zero = two.connect(0);
  Ear ear;
  zero->start(ear.handler(), ear.closed());
  pid_t held = 0;
  ASSERT_EQ(::read(told[0], &held, sizeof held), static_cast<ssize_t>(sizeof held));
  EXPECT_TRUE(ear.wait_frames(1));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(ear.wait_end(1));
  EXPECT_EQ(ear.ends[1], std::vector<Ending>{Ending::process_ended});
  EXPECT_EQ(::kill(held, 0), 0) << "the child that holds the socket lives";
  ::kill(held, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(told[0]);
  ::close(told[1]);
}

// The news of a death does not overtake what the dead had sent before.
TEST(Control, WhatWasSentBeforeADeathIsHeardFirst) {
  if (!kForkWithThreads) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const bool leaves : {false, true}) {
    TwoProcesses two;
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      std::unique_ptr<Control> one = two.connect(1);
      one->start([](Rank, ControlKind, auto, base::Fd) {}, [](Rank, Ending) {});
      for (int i = 0; i < 20; ++i) one->send(0, ControlKind::notice, bytes(std::string(4000, 'n')));
      if (leaves) one.reset();
      ::_exit(0);
    }
    std::unique_ptr<Control> zero = two.connect(0);
    Ear ear;
    zero->start(ear.handler(), ear.closed());
    EXPECT_TRUE(ear.wait_end(1));
    EXPECT_EQ(ear.frames.size(), 20u);
    EXPECT_EQ(ear.ends[1], std::vector<Ending>{leaves ? Ending::left : Ending::process_ended});
    ::waitpid(child, nullptr, 0);
  }
}

}  // namespace
}  // namespace regroup::net
