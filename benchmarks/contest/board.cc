// SPDX-License-Identifier: Apache-2.0
#include "contest/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <thread>
#include <utility>

namespace regroup::contest {

namespace {

uint32_t cores() {
  static const uint32_t count = std::thread::hardware_concurrency();
  return count;
}

// Looks before a core is given to whoever may share it: at once where ranks outnumber cores, for whoever waits for it
// may be measured.
int spins_for(uint32_t ranks) { return ranks > cores() ? 0 : 200; }

// From the arrival of the last rank until all leave.
constexpr int64_t kToLeave = 1000;

int64_t nanoseconds_now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

Board* map(int fd) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory);
}

}  // namespace

bool Meeting::wait_and_leave_together(uint32_t ranks) {
  if (!wait(ranks)) return false;
  while (ranks <= cores() && nanoseconds_now() < start.load(std::memory_order_relaxed)) {
  }
  return true;
}

bool Meeting::wait(uint32_t ranks) {
  const uint32_t mine = generation.load(std::memory_order_acquire);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks) {
    arrived.store(0, std::memory_order_relaxed);
    start.store(nanoseconds_now() + kToLeave, std::memory_order_relaxed);
    generation.store(mine + 1, std::memory_order_release);
    return !broken.load(std::memory_order_relaxed);
  }
  const int spins = spins_for(ranks);
  for (int looks = 0; generation.load(std::memory_order_acquire) == mine; ++looks) {
    if (broken.load(std::memory_order_relaxed)) return false;
    if (looks > spins) ::sched_yield();
  }
  return !broken.load(std::memory_order_relaxed);
}

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds most) {
  const timespec time{static_cast<time_t>(most.count() / 1'000'000'000), most.count() % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

SharedBoard SharedBoard::make() {
  SharedBoard made;
  // Most of it is never touched, and costs nothing.
  made.fd_ = base::Fd(::memfd_create("regroup-contest", MFD_CLOEXEC));
  if (!made.fd_.valid() || ::ftruncate(made.fd_.get(), sizeof(Board)) != 0) return made;
  made.board_ = map(made.fd_.get());
  if (made.board_ != nullptr) made.board_->organiser = ::getpid();
  return made;
}

SharedBoard SharedBoard::open(const std::string& path, std::string* problem) {
  SharedBoard opened;
  opened.fd_ = base::Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat about {};
  if (!opened.fd_.valid() || ::fstat(opened.fd_.get(), &about) != 0) {
    *problem = "cannot open the contest's board " + path;
    return opened;
  }
  if (static_cast<uint64_t>(about.st_size) != sizeof(Board)) {
    *problem = "the contest's board is of another build: build the drivers anew";
    return opened;
  }
  opened.board_ = map(opened.fd_.get());
  if (opened.board_ == nullptr) *problem = "cannot map the contest's board";
  return opened;
}

SharedBoard::SharedBoard(SharedBoard&& other) noexcept
    : fd_(std::move(other.fd_)), board_(std::exchange(other.board_, nullptr)) {}

SharedBoard::~SharedBoard() {
  if (board_ != nullptr) ::munmap(board_, sizeof(Board));
}

std::string SharedBoard::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

}  // namespace regroup::contest
