// SPDX-License-Identifier: Apache-2.0
#include "net/vital.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace regroup::net {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;  // it follows no threads into a forked child
#else
constexpr bool kForks = true;
#endif

bool comes(const std::atomic<int>& count, int wanted) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (count < wanted && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  return count == wanted;
}

// As a process's memory of words looks from outside, with a writer's view.
struct Words {
  struct Word {
    void* next;
    std::atomic<uint32_t> state;
    uint32_t unused;
  };
  static constexpr size_t kBytes = Vital::kWords * sizeof(Word);

  explicit Words(bool sealed = true) : fd(::memfd_create("words", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::ftruncate(fd.get(), kBytes), 0);
    words = static_cast<Word*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    if (sealed) {
      EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    }
  }
  Words(Words&& other) noexcept : fd(std::move(other.fd)), words(std::exchange(other.words, nullptr)) {}
  ~Words() {
    if (words != nullptr) ::munmap(words, kBytes);
  }
  // As the kernel does when the owner ends.
  void end(uint32_t word) {
    words[word].state.fetch_or(FUTEX_OWNER_DIED);
    ::syscall(SYS_futex, &words[word].state, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  base::Fd fd;
  Word* words;
};

class OnVital : public testing::Test {
 protected:
  void SetUp() override {
    auto acquired = Vital::acquire();
    if (!acquired.ok()) GTEST_SKIP() << acquired.status().to_string();
    vital_ = *acquired;
  }
  std::shared_ptr<Vital> vital_;
};

TEST_F(OnVital, AProcessThatIsKilledIsNoticed) {
  if (!kForks) GTEST_SKIP() << "this sanitizer follows no threads into a forked child";
  for (const size_t mebibytes : {0, 64}) {
    int told[2];
    ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
    const int watcher = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      auto own = Vital::acquire();
      if (!own.ok()) ::_exit(1);
      const std::string resident(mebibytes << 20, 'x');
      const int said[2] = {(*own)->descriptor(), static_cast<int>((*own)->lend(watcher).value_or(Vital::kWords))};
      if (::write(told[1], said, sizeof said) != sizeof said) ::_exit(1);
      for (;;) ::pause();
    }
    int said[2];
    ASSERT_EQ(::read(told[0], said, sizeof said), static_cast<ssize_t>(sizeof said));
    const std::string path = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(said[0]);
    const base::Fd memory(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(memory.valid());
    std::atomic<int> died{0}, never{0};
    EXPECT_NE(vital_->watch(memory, static_cast<uint32_t>(said[1]), [&] { ++died; }), 0u);
    EXPECT_NE(vital_->watch(memory, static_cast<uint32_t>(said[1]), [&] { ++died; }), 0u);
    vital_->unwatch(vital_->watch(memory, static_cast<uint32_t>(said[1]), [&] { ++never; }));
    std::this_thread::sleep_for(10ms);
    EXPECT_EQ(died, 0);
    ::kill(child, SIGKILL);
    EXPECT_TRUE(comes(died, 2));
    EXPECT_EQ(never, 0);
    int how = 0;
    ::waitpid(child, &how, 0);
    EXPECT_EQ(how, SIGKILL);
    // Who comes later is told as well.
    EXPECT_NE(vital_->watch(memory, static_cast<uint32_t>(said[1]), [&] { ++died; }), 0u);
    EXPECT_TRUE(comes(died, 3));
    ::close(told[0]);
    ::close(told[1]);
  }
}

TEST_F(OnVital, AsManyAreWatchedAsAThreadCanSleepOn) {
  std::vector<Words> processes(Vital::kMostWatched + 1);
  std::vector<Vital::Ticket> tickets;
  std::atomic<int> died{0};
  for (size_t i = 0; i < processes.size(); ++i)
    tickets.push_back(vital_->watch(processes[i].fd, static_cast<uint32_t>(i), [&] { ++died; }));
  for (size_t i = 0; i < Vital::kMostWatched; ++i) EXPECT_NE(tickets[i], 0u) << i;
  EXPECT_EQ(tickets.back(), 0u);
  for (size_t i = 0; i < processes.size(); ++i) {
    if (i % 2 == 0) processes[i].end(static_cast<uint32_t>(i));
  }
  EXPECT_TRUE(comes(died, 64));
  for (const Vital::Ticket ticket : tickets) vital_->unwatch(ticket);
  for (size_t i = 0; i < processes.size(); ++i) processes[i].end(static_cast<uint32_t>(i));
  // There is room again.
  Words last;
  EXPECT_NE(vital_->watch(last.fd, 0, [&] { ++died; }), 0u);
  last.end(0);
  EXPECT_TRUE(comes(died, 65));
}

TEST_F(OnVital, WhatIsNoMemoryOfWordsIsRefused) {
  Words unsealed(false), good;
  const base::Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::Fd small(::memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  for (const base::Fd* fd : {&std::as_const(unsealed.fd), &nothing, &small})
    EXPECT_EQ(vital_->watch(*fd, 0, [] {}), 0u);
  EXPECT_EQ(vital_->watch(base::Fd(), 0, [] {}), 0u);
  EXPECT_EQ(vital_->watch(good.fd, Vital::kWords, [] {}), 0u);
  vital_->unwatch(0);
  vital_->unwatch(12345);
}

TEST_F(OnVital, EachProcessIsLentAWord) {
  const auto first = vital_->lend(1000001), second = vital_->lend(1000002);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(vital_->lend(1000001), first);
  vital_->give_back(1000001);
  EXPECT_EQ(vital_->lend(1000001), first) << "it was lent twice and given back once";
  vital_->give_back(1000001);
  vital_->give_back(1000001);
  EXPECT_NE(vital_->lend(1000001), first) << "a word was lent again at once";
  for (int pid = 1000003; pid < 1000003 + static_cast<int>(Vital::kWords) - 2; ++pid)
    EXPECT_TRUE(vital_->lend(pid).has_value());
  EXPECT_FALSE(vital_->lend(1).has_value());
  vital_->give_back(1000002);
  EXPECT_EQ(vital_->lend(1), second);
}

TEST_F(OnVital, ItMayComeAndGoWhileItWatches) {
  vital_ = nullptr;
  Words process;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> died{0};
    const auto vital = Vital::acquire().value_or_throw();
    for (int i = 0; i < 4; ++i) EXPECT_NE(vital->watch(process.fd, 3, [&] { ++died; }), 0u);
    if (round == 49) {
      process.end(3);
      EXPECT_TRUE(comes(died, 4));
    }
  }
}

}  // namespace
}  // namespace regroup::net
