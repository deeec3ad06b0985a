// SPDX-License-Identifier: Apache-2.0
// The organiser's side of a contest.
#include "measurement.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>

#include "bare_contender.h"
#include "contest/floor.h"
#include "crew.h"
#include "median.h"
#include "process_tree.h"
#include "regroup_contender.h"

namespace regroup::tool {

namespace {

using contest::Do;
using contest::Side;
using contest::sleep_on;
using contest::wake_all;
using Steady = std::chrono::steady_clock;

constexpr std::string_view kBare = "bare";
constexpr uint32_t kRounds = 5;
constexpr uint32_t kLeastIterations = 3;  // in a round, where they are not given
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr auto kTurnPatience = std::chrono::seconds(120);

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "regroup-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A contender, or one of several ways of regroup's.
struct Contestant {
  std::string name;
  Side* side = nullptr;
  uint32_t variant = 0;
  std::shared_ptr<Crew> crew = std::make_shared<Crew>();
  std::string problem;  // it is out
  std::string cannot;   // out for this size
  uint32_t iterations = 0;
  std::vector<double> times;  // of this size, all rounds
  std::vector<double> round_p50s;

  bool ours() const { return name == kUs; }
  bool in() const { return problem.empty() && cannot.empty(); }
};

class Contest {
 public:
  Contest(const Measurement& what, const std::function<void(uint64_t, uint64_t)>& progress)
      : what_(what), progress_(progress), board_(contest::SharedBoard::make()) {}
  ~Contest() {
    for (const auto& one : contestants_) {
      one->side->order = Do::end;
      one->side->turn.fetch_add(1, std::memory_order_release);
      wake_all(one->side->turn);
    }
    for (const auto& one : contestants_) one->crew->end();
    // What a peer's launcher may have left behind.
    if (!what_.against.empty()) signal_descendants(SIGKILL);
  }

  std::string run(const std::function<void(const Measured&)>& result) {
    if (board_.get() == nullptr || folder_.path().empty()) return "no shared memory or no temporary folder";
    write_task();
    if (std::string problem = start(); !problem.empty()) return problem;
    for (uint32_t size = 0; size < what_.sizes.size(); ++size) {
      measure_size(size);
      for (const auto& one : contestants_) {
        if (one->ours() && !one->problem.empty()) return one->problem;
      }
      for (const auto& one : contestants_) result(result_of(*one, size));
    }
    return {};
  }

 private:
  Contestant& us() { return *contestants_.front(); }
  Rank ranks() const { return what_.call.ranks; }

  void write_task() {
    contest::Task& task = board_->task;
    task.collective = what_.call.collective;
    task.type = what_.call.type;
    task.op = what_.op;
    task.ranks = ranks();
    task.root = what_.call.root;
    task.in_place = what_.in_place;
    task.check = what_.check;
    task.sizes = static_cast<uint32_t>(what_.sizes.size());
    for (size_t size = 0; size < what_.sizes.size(); ++size) {
      Call call = what_.call;
      call.bytes = what_.sizes[size];
      task.parts[size] = elements_of(call);
    }
  }

  Contestant& add(const std::string& name) {
    contestants_.push_back(std::make_unique<Contestant>());
    contestants_.back()->name = name;
    contestants_.back()->side = &board_->sides[sides_++];
    return *contestants_.back();
  }

  // Another way of the first contender's, by the same processes.
  void add_variant(uint32_t variant) {
    auto made = std::make_unique<Contestant>();
    made->name = us().name;
    made->side = us().side;
    made->crew = us().crew;
    made->variant = variant;
    contestants_.push_back(std::move(made));
  }

  std::string start() {
    std::optional<contest::SocketRing> ring;
    if (what_.floor && what_.call.transport == "tcp" && ranks() > 1) ring.emplace(ranks());
    const std::string store = "file://" + (folder_.path() / "store").string();
    const bool started = add(std::string(kUs)).crew->fork_ranks(ranks(), [&](Rank rank) {
      if (what_.overlap) {
        contest::pin_to_share(rank, ranks());  // who computes and who communicates may have a core each
      } else {
        contest::pin(rank, what_.call.threads);
      }
      const auto contender = make_regroup_contender(what_, store, ring ? &*ring : nullptr);
      return contest::contend(*contender, *board_.get(), 0, rank);
    });
    if (!started) return fmt::format("cannot start {} processes", ranks());
    for (uint32_t variant = 1; variant < what_.algorithms.size(); ++variant) add_variant(variant);
    if (!what_.against.empty()) adopt_orphans();
    for (const std::string& peer : what_.against) start_peer(peer);
    for (const auto& one : contestants_) {
      await(*one, kStartPatience, [&] { return one->side->ready.load(std::memory_order_acquire) == ranks(); });
    }
    return us().problem;
  }

  void start_peer(const std::string& name) {
    Contestant& peer = add(name);
    if (name == kBare) return start_bare(peer);
    const std::filesystem::path launcher = launcher_of(name);
    if (!std::filesystem::exists(launcher)) {
      peer.problem = "its driver is not built (./dev peers installs peers and builds their drivers)";
    } else if (!peer.crew->launch(launcher, ranks(), fmt::format("{}:{}", sides_ - 1, board_.path()), folder_.path())) {
      peer.problem = "cannot start its launcher";
    }
  }

  void start_bare(Contestant& peer) {
    bare_.emplace(board_->task);
    const uint32_t side = static_cast<uint32_t>(sides_ - 1);
    const bool started = bare_->made() && peer.crew->fork_ranks(ranks(), [&](Rank rank) {
      contest::pin(rank);
      return contest::contend(*make_bare_contender(*bare_), *board_.get(), side, rank);
    });
    if (!started) peer.problem = "not enough memory or processes";
  }

  // Until `done`, or until the contestant is out.
  template <typename Done>
  void await(Contestant& one, std::chrono::seconds patience, Done done) {
    const Steady::time_point until = Steady::now() + patience;
    while (one.problem.empty() && !done()) {
      if (one.side->meeting.broken.load(std::memory_order_acquire)) one.problem = problems_of(one);
      std::string why;
      if (one.crew->failed(&why)) drop(one, problems_of(one).empty() ? why : problems_of(one));
      if (Steady::now() > until) drop(one, fmt::format("did not go on for {} s", patience.count()));
      if (one.problem.empty()) sleep_on(one.side->finished, one.side->finished.load(), kLook);
      if (progress_) progress_(board_->done.load(std::memory_order_relaxed), planned_);
    }
  }

  void drop(Contestant& one, const std::string& why) {
    one.problem = why;
    one.side->meeting.broken.store(true, std::memory_order_release);
  }

  std::string problems_of(const Contestant& one) const {
    std::string text;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      if (one.side->problem[rank][0] == '\0') continue;
      text += fmt::format("{}rank {} {}", text.empty() ? "" : "; ", rank, one.side->problem[rank]);
    }
    return text.empty() && one.side->meeting.broken.load() ? "a rank failed" : text;
  }

  // Returns the seconds that the turn took.
  double turn(Contestant& one, Do order, uint32_t size, uint32_t iterations) {
    const Steady::time_point begin = Steady::now();
    board_->done.store(0);
    planned_ = iterations;
    one.side->finished.store(0);
    one.side->order = order;
    one.side->size = size;
    one.side->variant = one.variant;
    one.side->iterations = iterations;
    one.side->turn.fetch_add(1, std::memory_order_release);
    wake_all(one.side->turn);
    await(one, kTurnPatience, [&] { return one.side->finished.load(std::memory_order_acquire) == ranks(); });
    return std::chrono::duration<double>(Steady::now() - begin).count();
  }

  // Of each iteration of the last turn the slowest rank's time.
  std::vector<double> slowest(uint32_t iterations) const {
    std::vector<double> all(iterations);
    for (Rank rank = 0; rank < ranks(); ++rank) {
      for (uint32_t at = 0; at < iterations; ++at) all[at] = std::max(all[at], board_->ranks[rank].us[at]);
    }
    return all;
  }

  void measure_size(uint32_t size) {
    floors_.clear();
    board_->whole_us = 0;
    std::memset(board_->phases, 0, sizeof board_->phases);
    for (const auto& one : contestants_) prepare(*one, size);
    const uint32_t rounds = what_.iterations > 0 ? std::min(kRounds, what_.iterations) : kRounds;
    for (uint32_t round = 0; round < rounds; ++round) {
      for (const auto& one : contestants_) {
        if (!one->in()) continue;
        const uint32_t iterations =
            what_.iterations > 0 ? what_.iterations / rounds + (round < what_.iterations % rounds) : one->iterations;
        turn(*one, Do::measure, size, iterations);
        if (!one->in()) continue;
        const std::vector<double> times = slowest(iterations);
        one->times.insert(one->times.end(), times.begin(), times.end());
        one->round_p50s.push_back(median(times));
        if (one.get() != &us() || !what_.floor) continue;
        turn(*one, Do::floor, size, iterations);
        if (one->in()) floors_.push_back(median(slowest(iterations)));
      }
    }
  }

  // Warms up, and finds out how many calls there is time for.
  void prepare(Contestant& one, uint32_t size) {
    one.cannot.clear();
    one.times.clear();
    one.round_p50s.clear();
    if (!one.in()) return;
    const uint64_t bytes = larger_side(board_->task, board_->task.parts[size]);
    const uint32_t warmup = what_.warmup > 0 ? what_.warmup : bytes >= (8 << 20) ? 2 : 10;
    turn(one, Do::warm_up, size, warmup);
    if (one.problem.empty()) one.cannot = one.side->cannot[size];
    if (!one.in()) return;
    const double seconds = turn(one, Do::warm_up, size, warmup) / warmup;
    const double fitting = what_.seconds / kRounds / std::max(seconds, 1e-7);
    one.iterations = static_cast<uint32_t>(std::clamp<double>(fitting, kLeastIterations, contest::kMostIterations));
  }

  Measured result_of(const Contestant& one, uint32_t size) {
    Call call = what_.call;
    call.bytes = what_.sizes[size];
    Measured measured;
    measured.bytes = bytes_of(call);
    measured.contender = one.name;
    if (one.ours()) name_algorithm(one, call, &measured);
    measured.reason = one.problem.empty() ? one.cannot : one.problem;
    if (!measured.reason.empty()) return measured;
    std::vector<double> times = one.times;
    std::sort(times.begin(), times.end());
    measured.version = one.side->version;
    measured.iterations = static_cast<uint32_t>(times.size());
    measured.round_p50s_us = one.round_p50s;
    measured.p50_us = times[times.size() / 2];
    measured.min_us = times.front();
    measured.p99_us = times[std::min(times.size() - 1, times.size() * 99 / 100)];
    if (what_.check) measured.equal = !one.side->wrong[size].load();
    if (&one != &us()) {
      std::vector<double> ratios;
      const size_t rounds = std::min(one.round_p50s.size(), us().round_p50s.size());
      for (size_t round = 0; round < rounds; ++round) {
        ratios.push_back(one.round_p50s[round] / us().round_p50s[round]);
      }
      measured.ratio = median(ratios);
      return measured;
    }
    measured.floor_us = median(floors_);
    measured.whole_us = board_->whole_us;
    measured.phases.assign(board_->phases, board_->phases + contest::kMostPhases);
    return measured;
  }

  void name_algorithm(const Contestant& one, const Call& call, Measured* measured) const {
    measured->algorithm = what_.algorithms[one.variant];
    if (!measured->algorithm.empty() || !what_.plans()) return;
    measured->algorithm = takes_eager_path(call) ? "eager" : selection_of(call).algorithm->name;
  }

  const Measurement& what_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  TemporaryFolder folder_;
  contest::SharedBoard board_;
  std::optional<BareArea> bare_;
  std::vector<std::unique_ptr<Contestant>> contestants_;
  size_t sides_ = 0;            // in use
  std::vector<double> floors_;  // of this size, by round
  uint64_t planned_ = 0;
};

}  // namespace

double bus_factor(Collective collective, Rank ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return others;
    default:
      return 1;
  }
}

std::string measure(const Measurement& what, const std::function<void(const Measured&)>& result,
                    const std::function<void(uint64_t, uint64_t)>& progress) {
  return Contest(what, progress).run(result);
}

}  // namespace regroup::tool
