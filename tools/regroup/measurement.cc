// SPDX-License-Identifier: Apache-2.0
// The parent's side: forks, waits, hands results on.
#include "measurement.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "bench_rank.h"
#include "floor.h"
#include "output.h"

namespace regroup::tool {

namespace {

std::string algorithm_of(const Measurement& what, const Call& call) {
  if (!what.algorithm.empty()) return what.algorithm;
  return std::string(algorithms::select(problem_of(call, 0), facts_of(call)).algorithm->name);
}

class Children {
 public:
  ~Children() {
    for (const pid_t child : pids_) {
      if (child <= 0) continue;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

  // Forks a child for each rank, which calls `body` and exits.
  bool start(Rank ranks, const std::function<void(Rank)>& body) {
    int ends[2];
    if (::pipe2(ends, 0) != 0) return false;
    ended_ = base::Fd(ends[0]);
    const base::Fd held(ends[1]);
    const pid_t parent = ::getpid();
    for (Rank rank = 0; rank < ranks; ++rank) {
      const pid_t child = ::fork();
      if (child < 0) return false;
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        body(rank);
        ::_exit(0);
      }
      pids_.push_back(child);
    }
    return true;
  }

  // True once all have ended.
  bool wait(int milliseconds) {
    pollfd poll{ended_.get(), POLLIN, 0};
    ::poll(&poll, 1, milliseconds);
    return poll.revents != 0;
  }

  // Takes note of ranks that ended, and tells the others of one that crashed.
  void reap(Board& board, bool block) {
    for (Rank rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] <= 0 || ::waitpid(pids_[rank], &status, block ? 0 : WNOHANG) != pids_[rank]) continue;
      pids_[rank] = 0;
      if (WIFSIGNALED(status)) board.fail(rank, fmt::format("was ended by signal {}", WTERMSIG(status)));
    }
  }

 private:
  std::vector<pid_t> pids_;
  base::Fd ended_;
};

std::string problems_of(const Board& board, Rank ranks) {
  std::string text;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (board.ranks[rank].problem[0] == '\0') continue;
    text += fmt::format("{}rank {} {}", text.empty() ? "" : "; ", rank, board.ranks[rank].problem);
  }
  return text.empty() && board.failed.load() ? "a rank failed" : text;
}

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
  const SharedBoard board = make_board();
  std::string folder = (std::filesystem::temp_directory_path() / "regroup-bench-XXXXXX").string();
  if (board == nullptr || ::mkdtemp(folder.data()) == nullptr) return "no shared memory or no temporary folder";
  struct Remove {
    std::string path;
    ~Remove() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  } remove{folder};

  std::optional<SocketRing> ring;
  if (what.floor && what.call.transport == "tcp" && what.call.ranks > 1) ring.emplace(what.call.ranks);
  Children children;
  const bool started = children.start(what.call.ranks, [&](Rank rank) {
    run_bench_rank(what, rank, "file://" + folder + "/store", *board, ring ? &*ring : nullptr);
  });
  if (!started) return fmt::format("cannot start {} processes", what.call.ranks);
  if (ring) ring->close_all();

  size_t next = 0;
  const auto hand_on = [&] {
    for (; next < what.sizes.size() && board->results[next].ready.load(std::memory_order_acquire); ++next) {
      Call call = what.call;
      call.bytes = what.sizes[next];
      Measured measured{bytes_of(call), algorithm_of(what, call), &board->results[next], std::nullopt};
      if (what.check) measured.equal = !board->wrong[next].load();
      result(measured);
    }
  };
  while (!children.wait(50)) {
    children.reap(*board, false);
    hand_on();
    if (progress) progress(board->done.load(), board->planned.load());
  }
  children.reap(*board, true);
  hand_on();
  return problems_of(*board, what.call.ranks);
}

}  // namespace regroup::tool
