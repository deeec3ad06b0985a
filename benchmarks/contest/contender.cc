// SPDX-License-Identifier: Apache-2.0
// The rank's side of a contest.
#include "contest/contender.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "contest/buffers.h"

namespace regroup::contest {

namespace {

using Steady = std::chrono::steady_clock;

constexpr auto kLookForOrganiser = std::chrono::seconds(1);
constexpr uint32_t kNoSize = ~0u;
constexpr uint64_t kPage = 4096;

double us_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::micro>(Steady::now() - begin).count();
}

void put(char* to, size_t room, std::string_view text) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

class Participant {
 public:
  Participant(Contender& contender, Board& board, uint32_t side, Rank rank)
      : contender_(contender),
        board_(board),
        side_(board.sides[side]),
        rank_(rank),
        times_(board.ranks[rank].us),
        profiled_(side == 0 && rank == 0) {}

  // The problem that ended it; empty if the organiser did.
  std::string run() {
    std::string version;
    if (std::string problem = contender_.start(rank_, board_.task.ranks, &version); !problem.empty()) return problem;
    if (rank_ == 0) put(side_.version, sizeof side_.version, version);
    if (!buffers_.make(board_.task, rank_, contender_)) return "not enough memory";
    side_.ready.fetch_add(1);
    for (uint32_t last = 0;;) {
      const uint32_t turn = side_.turn.load(std::memory_order_acquire);
      if (turn == last) {
        sleep_on(side_.turn, turn, kLookForOrganiser);
        if (::kill(board_.organiser, 0) != 0) return "the organiser has gone";
        continue;
      }
      last = turn;
      if (side_.order == Do::end) return {};
      if (!take_turn()) return problem_;
      if (side_.finished.fetch_add(1, std::memory_order_acq_rel) + 1 == board_.task.ranks) wake_all(side_.finished);
    }
  }

 private:
  bool meet() { return side_.meeting.wait(board_.task.ranks); }

  bool take_turn() {
    if ((side_.size != size_ || side_.variant != variant_) && !change()) return false;
    if (!possible_) return meet();
    const Steady::time_point begin = Steady::now();
    for (uint32_t iteration = 0; iteration < side_.iterations; ++iteration) {
      if (!(side_.order == Do::floor ? one_floor(iteration) : one_call(iteration))) return false;
      if (rank_ == 0) board_.done.store(iteration + 1, std::memory_order_relaxed);
    }
    if (profiled_ && side_.order == Do::measure) board_.whole_us += us_since(begin);
    return meet();
  }

  // To another size, another variant, or both.
  bool change() {
    const bool resized = size_ != side_.size;
    size_ = side_.size;
    variant_ = side_.variant;
    if (resized) buffers_.resize(board_.task.parts[size_]);
    Turn turn = buffers_.turn();
    turn.variant = variant_;
    const std::string cannot = contender_.prepare(turn);
    possible_ = cannot.empty();
    if (rank_ == 0) put(side_.cannot[size_], sizeof side_.cannot[size_], cannot);
    if (!meet()) return false;
    if (resized) contender_.prepare_floor();
    return meet();
  }

  enum PhaseIndex { kWrite, kMeet, kCall, kCheck, kFloor, kPhases };

  // Runs `body` and adds its time to the phase.
  template <typename Body>
  double timed(PhaseIndex phase, Body body) {
    const Steady::time_point begin = Steady::now();
    body();
    const double us = us_since(begin);
    if (profiled_ && side_.order != Do::warm_up) {
      Phase& sum = board_.phases[phase];
      const std::string_view names[kPhases] = {"write inputs", "meet the others", name(board_.task.collective),
                                               "compare outputs", "floor"};
      put(sum.name, sizeof sum.name, names[phase]);
      sum.us += us;
      ++sum.calls;
    }
    return us;
  }

  bool one_call(uint32_t iteration) {
    timed(kWrite, [&] { buffers_.write_inputs(); });
    bool met = true;
    timed(kMeet, [&] { met = side_.meeting.wait_and_leave_together(board_.task.ranks); });
    if (!met) return false;
    times_[iteration] = timed(kCall, [&] { problem_ = contender_.call(); });
    if (!problem_.empty()) return false;
    if (board_.task.check) {
      timed(kCheck, [&] {
        if (!buffers_.right()) side_.wrong[size_].store(true);
      });
    }
    return true;
  }

  bool one_floor(uint32_t iteration) {
    if (!side_.meeting.wait_and_leave_together(board_.task.ranks)) return false;
    times_[iteration] = timed(kFloor, [&] { problem_ = contender_.floor(); });
    return problem_.empty();
  }

  Contender& contender_;
  Board& board_;
  Side& side_;
  const Rank rank_;
  double* const times_;
  const bool profiled_;
  Buffers buffers_;
  uint32_t size_ = kNoSize;
  uint32_t variant_ = 0;
  bool possible_ = false;
  std::string problem_;
};

}  // namespace

std::byte* Contender::take(uint64_t bytes) {
  const uint64_t pages = (bytes + kPage - 1) / kPage * kPage;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, pages));
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, pages);  // the pages are there before anything is measured
  ordinary_.emplace_back(memory);
  return memory;
}

namespace {

std::vector<int> usable_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

void pin(Rank rank, unsigned width) {
  const std::vector<int> cores = usable_cores();
  if (cores.empty()) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  for (size_t i = 0; i < width; ++i) CPU_SET(cores[(size_t{rank} * width + i) % cores.size()], &own);
  ::sched_setaffinity(0, sizeof own, &own);
}

void pin_to_share(Rank rank, Rank ranks) {
  pin(rank, std::max(1u, static_cast<unsigned>(usable_cores().size()) / ranks));
}

int contend(Contender& contender, Board& board, uint32_t side, Rank rank) {
  std::string problem;
  try {
    problem = Participant(contender, board, side, rank).run();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  Meeting& meeting = board.sides[side].meeting;
  if (problem.empty()) return meeting.broken.load() ? 1 : 0;
  put(board.sides[side].problem[rank], sizeof board.sides[side].problem[rank], problem);
  meeting.broken.store(true, std::memory_order_release);
  return 1;
}

int contend(Contender& contender, Rank rank) {
  const char* text = std::getenv("REGROUP_CONTEST");
  const std::string place = text == nullptr ? "" : text;
  const size_t colon = place.find(':');
  if (colon == std::string::npos) {
    std::fprintf(stderr, "this program takes part in \"regroup bench --against\", which sets REGROUP_CONTEST\n");
    return 2;
  }
  std::string problem;
  const SharedBoard board = SharedBoard::open(place.substr(colon + 1), &problem);
  const unsigned long side = std::strtoul(place.c_str(), nullptr, 10);
  if (board.get() == nullptr || side >= kMostContenders || rank >= board->task.ranks) {
    std::fprintf(stderr, "%s\n", problem.empty() ? "no such contender or rank" : problem.c_str());
    return 2;
  }
  return contend(contender, *board.get(), static_cast<uint32_t>(side), rank);
}

}  // namespace regroup::contest
