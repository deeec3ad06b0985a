// SPDX-License-Identifier: Apache-2.0
#include "net/waker.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace regroup::net {
namespace {

using std::chrono::milliseconds;

base::Fd duplicate(int fd) { return base::Fd(::dup(fd)); }

TEST(Waker, SleepsUntilTheDeadline) {
  Waker waker = Waker::create().value_or_throw();
  const base::Time deadline = base::Clock::now() + std::chrono::microseconds(1500);
  waker.sleep(deadline);
  EXPECT_GE(base::Clock::now(), deadline);
}

TEST(Waker, APastDeadlineDoesNotSleep) {
  Waker waker = Waker::create().value_or_throw();
  const base::Time before = base::Clock::now();
  waker.sleep(before - milliseconds(5));
  EXPECT_LT(base::Clock::now() - before, milliseconds(500));
}

TEST(Waker, RingEndsTheNextSleepOnce) {
  Waker waker = Waker::create().value_or_throw();
  waker.ring();
  waker.ring();
  const base::Time start = base::Clock::now();
  waker.sleep(start + std::chrono::seconds(20));
  EXPECT_LT(base::Clock::now() - start, std::chrono::seconds(5));
  const base::Time deadline = base::Clock::now() + milliseconds(5);
  waker.sleep(deadline);
  EXPECT_GE(base::Clock::now(), deadline) << "the bell was not drained";
}

TEST(Waker, RingFromAnotherThreadThroughADuplicate) {
  Waker waker = Waker::create().value_or_throw();
  const base::Fd bell = duplicate(waker.bell());
  std::thread ringer([&] {
    std::this_thread::sleep_for(milliseconds(5));
    Waker::ring(bell.get());
  });
  const base::Time start = base::Clock::now();
  waker.sleep(start + std::chrono::seconds(20));
  EXPECT_LT(base::Clock::now() - start, std::chrono::seconds(5));
  ringer.join();
}

TEST(Waker, WatchedDescriptors) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  const base::Fd here(pair[0]), there(pair[1]);
  Waker waker = Waker::create().value_or_throw();
  ASSERT_TRUE(waker.watch(here.get(), true).ok());
  const base::Time start = base::Clock::now();
  waker.sleep(start + std::chrono::seconds(20));  // writable
  ASSERT_TRUE(waker.watch(here.get(), false).ok());
  base::Time deadline = base::Clock::now() + milliseconds(3);
  waker.sleep(deadline);
  EXPECT_GE(base::Clock::now(), deadline);
  ASSERT_EQ(::write(there.get(), "x", 1), 1);
  waker.sleep(start + std::chrono::seconds(20));  // readable, and again: level-triggered
  waker.sleep(start + std::chrono::seconds(20));
  EXPECT_LT(base::Clock::now() - start, std::chrono::seconds(10));
  waker.forget(here.get());
  deadline = base::Clock::now() + milliseconds(3);
  waker.sleep(deadline);
  EXPECT_GE(base::Clock::now(), deadline);
}

TEST(Waker, ABadDescriptorIsAnError) {
  Waker waker = Waker::create().value_or_throw();
  EXPECT_EQ(waker.watch(-1, false).code(), StatusCode::io_error);
}

}  // namespace
}  // namespace regroup::net
