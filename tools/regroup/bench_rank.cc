// SPDX-License-Identifier: Apache-2.0
#include "bench_rank.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "bench_buffers.h"
#include "output.h"
#include "regroup/join.h"

namespace regroup::tool {

namespace {

using Steady = std::chrono::steady_clock;

double us_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::micro>(Steady::now() - begin).count();
}

// One core for each rank in turn, of those that this process may use.
void pin(Rank rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[rank % cores.size()], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

class BenchRank {
 public:
  BenchRank(const Measurement& what, Rank rank, Board& board, SocketRing* ring)
      : what_(what), rank_(rank), board_(board), mine_(board.ranks[rank]), ring_(ring) {}

  std::string run(const std::string& store_url) {
    pin(rank_);
    JoinOptions join;
    join.store_url = store_url;
    join.rank = rank_;
    join.size = what_.call.ranks;
    join.transport = what_.call.transport;
    join.timeout = std::chrono::seconds(60);
    Result<ProcessGroup> joined = regroup::join(join);
    if (!joined.ok()) return "could not join: " + joined.status().to_string();
    group_ = joined.value();

    uint64_t most = 0, most_floor = 64;
    for (const uint64_t bytes : what_.sizes) {
      most = std::max(most, bytes_at(bytes));
      most_floor = std::max(most_floor, floor_bytes(bytes_at(bytes)));
    }
    if (!buffers_.make(what_, rank_, most)) return buffers_.problem();
    if (what_.floor) copies_.emplace(most_floor);
    if (ring_ != nullptr && !ring_->connect(rank_)) return "could not connect bare sockets";
    for (size_t size = 0; size < what_.sizes.size(); ++size) {
      if (!measure_size(size)) return problem_;
    }
    return {};
  }

 private:
  uint64_t bytes_at(uint64_t bytes) const {
    Call call = what_.call;
    call.bytes = bytes;
    return bytes_of(call);
  }
  uint64_t floor_bytes(uint64_t bytes) const {
    return ring_ != nullptr ? least_wire_bytes(what_.call.collective, what_.call.ranks, bytes)
                            : least_bytes(what_.call.collective, what_.call.ranks, bytes);
  }
  bool meet() { return board_.wait(what_.call.ranks); }

  bool measure_size(size_t index) {
    const uint64_t bytes = bytes_at(what_.sizes[index]);
    buffers_.resize(what_.sizes[index]);
    operation_ = buffers_.operation();
    floor_ = what_.floor ? floor_bytes(bytes) : 0;
    // Copies: only the root's output is written. Over sockets everybody takes part.
    if (ring_ == nullptr && what_.call.collective == Collective::gather && rank_ != what_.call.root) floor_ = 0;
    if (!meet()) return false;
    if (floor_ > 0 && ring_ == nullptr) copies_->choose(floor_);

    const uint32_t warmup = what_.warmup > 0 ? what_.warmup : bytes >= (8 << 20) ? 2 : 5;
    double round_us = 1;
    for (uint32_t round = 0; round < warmup; ++round) {
      const Steady::time_point begin = Steady::now();
      if (!one_round(index, 0)) return false;
      round_us = us_since(begin);
    }
    if (rank_ == 0) {
      const double fitting = what_.seconds * 1e6 / std::max(round_us, 0.1);
      const uint32_t own = static_cast<uint32_t>(std::clamp(fitting, 5.0, static_cast<double>(kMostIterations)));
      board_.iterations.store(what_.iterations > 0 ? std::min(what_.iterations, kMostIterations) : own);
      board_.done.store(0);
      board_.planned.store(board_.iterations.load());
    }
    if (!meet()) return false;
    const uint32_t iterations = board_.iterations.load();
    std::memset(phases_, 0, sizeof phases_);
    const Steady::time_point begin = Steady::now();
    for (uint32_t iteration = 0; iteration < iterations; ++iteration) {
      if (!one_round(index, iteration)) return false;
      if (rank_ == 0) board_.done.store(iteration + 1, std::memory_order_relaxed);
    }
    const double whole_us = us_since(begin);
    if (!meet()) return false;
    if (rank_ == 0) publish(index, iterations, whole_us);
    return meet();
  }

  enum PhaseIndex { kWrite, kMeet, kCall, kCheck, kFloor, kPhases };

  // Runs `body` and adds its time to the phase.
  template <typename Body>
  double timed(PhaseIndex phase, Body body) {
    const Steady::time_point begin = Steady::now();
    body();
    const double us = us_since(begin);
    phases_[phase].us += us;
    ++phases_[phase].calls;
    return us;
  }

  bool one_round(size_t index, uint32_t iteration) {
    timed(kWrite, [&] { buffers_.write_inputs(); });
    bool met = true;
    timed(kMeet, [&] { met = meet(); });
    if (!met) return false;
    Status status;
    mine_.call_us[iteration] = timed(kCall, [&] { status = group_.run(operation_); });
    if (!status.ok()) {
      problem_ = status.to_string();
      return false;
    }
    if (what_.check) {
      timed(kCheck, [&] {
        if (!buffers_.right()) board_.wrong[index].store(true);
      });
    }
    return !what_.floor || run_floor(iteration);
  }

  bool run_floor(uint32_t iteration) {
    if (!meet()) return false;
    bool worked = true;
    mine_.floor_us[iteration] = timed(kFloor, [&] {
      if (floor_ == 0) return;
      if (ring_ != nullptr)
        worked = ring_->exchange(socket_buffer_.data(), socket_buffer_.size(), floor_);
      else
        copies_->run(floor_);
    });
    if (!worked) problem_ = "bare sockets failed";
    return worked;
  }

  // Rank 0: of each iteration the slowest rank's time.
  std::vector<double> slowest(double (RankArea::*times)[kMostIterations], uint32_t iterations) const {
    std::vector<double> all(iterations);
    for (Rank rank = 0; rank < what_.call.ranks; ++rank) {
      for (uint32_t at = 0; at < iterations; ++at) all[at] = std::max(all[at], (board_.ranks[rank].*times)[at]);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  void publish(size_t index, uint32_t iterations, double whole_us) {
    SizeResult& result = board_.results[index];
    const std::vector<double> calls = slowest(&RankArea::call_us, iterations);
    result.iterations = iterations;
    result.p50_us = calls[iterations / 2];
    result.min_us = calls.front();
    result.p99_us = calls[std::min<size_t>(iterations - 1, iterations * 99 / 100)];
    if (floor_ > 0) result.floor_us = slowest(&RankArea::floor_us, iterations)[iterations / 2];
    result.whole_us = whole_us;
    const std::string names[kPhases] = {"write inputs", "meet the others", std::string(name(what_.call.collective)),
                                        "compare outputs", "floor"};
    for (size_t phase = 0; phase < kPhases; ++phase) {
      std::strncpy(phases_[phase].name, names[phase].c_str(), sizeof phases_[phase].name - 1);
      result.phases[phase] = phases_[phase];
    }
    result.ready.store(true, std::memory_order_release);
  }

  const Measurement& what_;
  Rank rank_;
  Board& board_;
  RankArea& mine_;
  SocketRing* ring_;
  ProcessGroup group_;
  BenchBuffers buffers_;
  Operation operation_;
  std::optional<CopyFloor> copies_;
  std::vector<std::byte> socket_buffer_ = std::vector<std::byte>(1 << 20);
  uint64_t floor_ = 0;
  Phase phases_[kPhases] = {};
  std::string problem_;
};

}  // namespace

void run_bench_rank(const Measurement& what, Rank rank, const std::string& store_url, Board& board, SocketRing* ring) {
  std::string problem;
  try {
    problem = BenchRank(what, rank, board, ring).run(store_url);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) board.fail(rank, problem);
}

}  // namespace regroup::tool
