// SPDX-License-Identifier: Apache-2.0
#include "board.h"

#include <sched.h>
#include <sys/mman.h>

#include <cstring>

namespace regroup::tool {

namespace {

constexpr int kSpins = 200;  // looks before a core is given to whoever shares it

}  // namespace

bool Board::wait(uint32_t size) {
  const uint32_t mine = generation.load(std::memory_order_acquire);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
    arrived.store(0, std::memory_order_relaxed);
    generation.store(mine + 1, std::memory_order_release);
    return !failed.load(std::memory_order_relaxed);
  }
  for (int looks = 0; generation.load(std::memory_order_acquire) == mine; ++looks) {
    if (failed.load(std::memory_order_relaxed)) return false;
    if (looks > kSpins) ::sched_yield();
  }
  return !failed.load(std::memory_order_relaxed);
}

void Board::fail(uint32_t rank, const std::string& problem) {
  std::strncpy(ranks[rank].problem, problem.c_str(), sizeof ranks[rank].problem - 1);
  failed.store(true, std::memory_order_release);
}

void Unmap::operator()(Board* board) const { ::munmap(board, sizeof(Board)); }

SharedBoard make_board() {
  // Most of it is never touched, and costs nothing.
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return SharedBoard(memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory));
}

}  // namespace regroup::tool
