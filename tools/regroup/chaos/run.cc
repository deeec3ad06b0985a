// SPDX-License-Identifier: Apache-2.0
#include "chaos/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "chaos/board.h"
#include "chaos/cut.h"
#include "chaos/member.h"
#include "chaos/referee.h"
#include "process_tree.h"

namespace regroup::tool::chaos {

namespace {

using namespace std::chrono_literals;

constexpr auto kWatchdog = 30s;  // beyond the group's own time-outs
constexpr auto kEager = 50us;    // between looks, until the fault has come
constexpr auto kCalm = 1ms;      // and afterwards: the ranks need the cores
constexpr int kNotEnded = -1;

class Run {
 public:
  Run(const Scenario& scenario, const std::string& folder)
      : s_(scenario), store_(folder + "/store"), pids_(scenario.ranks, 0), ends_(scenario.ranks, kNotEnded) {
    void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory);  // zeroed pages are its first state
  }
  ~Run() {
    if (board_ != nullptr) ::munmap(board_, sizeof(Board));
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Report play(const std::string& folder) {
    if (board_ == nullptr || !start()) {
      end_all();
      return {Verdict::crashed, {"the system refuses processes or memory"}, {}, {}, {}, 0};
    }
    const auto until = base::Clock::now() + 4 * s_.timeout + kWatchdog;
    bool hung = false;
    while (!over() && !hung) {
      reap();
      advance();
      hung = base::Clock::now() >= until;
      std::this_thread::sleep_for(board_->fault_at == 0 ? kEager : std::chrono::microseconds(kCalm));
    }
    Report report = judge_all(hung);
    end_all();
    look_for_leftovers(folder, &report);
    return report;
  }

 private:
  bool start() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    lifeline_ = base::Fd(ends[1]);
    const base::Fd reading(ends[0]);
    const pid_t parent = ::getpid();
    std::fflush(nullptr);
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      const pid_t child = ::fork();
      if (child < 0) return false;
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        lifeline_.reset();
        const int status = chaos::play(s_, rank, *board_, "file://" + store_, reading.get());
        std::fflush(nullptr);
        ::_exit(status);
      }
      pids_[rank] = child;
    }
    return true;
  }

  void reap() {
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      int status = 0;
      if (ends_[rank] == kNotEnded && ::waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]) ends_[rank] = status;
    }
  }

  // Whoever takes part to the end has ended.
  bool over() const {
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      if (survives(s_, rank) && ends_[rank] == kNotEnded) return false;
    }
    return true;
  }

  bool settled(bool with_resumed) const {
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      if (!(with_resumed ? survives(s_, rank) : goes_on(s_, rank))) continue;
      if (ends_[rank] == kNotEnded && board_->place[rank].phase < Phase::settled) return false;
    }
    return true;
  }

  // Does what is next to be done, if it is time.
  void advance() {
    if (board_->fault_at == 0) {
      const bool begun = board_->place[s_.victim].begun.load(std::memory_order_acquire) > s_.operation;
      if (begun && s_.moment == Moment::inside && s_.fault != Fault::abort && ends_[s_.victim] == kNotEnded) strike();
    } else if (s_.fault == Fault::resume && !board_->resumed) {
      if (!settled(false)) return;
      board_->resumed = true;
      ::kill(pids_[s_.victim], SIGCONT);
    } else if (!board_->finish && settled(true)) {
      board_->finish = true;
    }
    // A fault that never came must not keep those waiting who have given up.
    if (board_->fault_at == 0 && settled(true)) board_->finish = true;
  }

  void strike() {
    std::this_thread::sleep_for(s_.delay);
    const pid_t victim = pids_[s_.victim];
    board_->fault_at = now_ns();
    switch (s_.fault) {
      case Fault::kill:
        ::kill(victim, SIGKILL);
        break;
      case Fault::stop:
      case Fault::resume:
        ::kill(victim, SIGSTOP);
        break;
      case Fault::slow:
        ::kill(victim, SIGSTOP);
        std::this_thread::sleep_for(s_.pause);
        ::kill(victim, SIGCONT);
        break;
      case Fault::partition:
        cut_failed_ = cut(pids_, s_.apart);
        break;
      case Fault::abort:
        break;
    }
  }

  Report judge_all(bool hung) {
    Report report;
    if (hung) {
      report.verdict = Verdict::hung;
      for (Rank rank = 0; rank < s_.ranks; ++rank) {
        if (!survives(s_, rank) || ends_[rank] != kNotEnded) continue;
        const Place& place = board_->place[rank];
        report.complaints.push_back(fmt::format("rank {}: hangs {}, after {} operations", rank,
                                                kPhaseNames[static_cast<size_t>(place.phase.load())], place.right));
      }
    }
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      report.operations += board_->place[rank].right;
      const int end = ends_[rank];
      if (!survives(s_, rank) || end == kNotEnded || (WIFEXITED(end) && WEXITSTATUS(end) == 0)) continue;
      if (!hung) report.verdict = Verdict::crashed;
      report.complaints.push_back(WIFSIGNALED(end)
                                      ? fmt::format("rank {}: was ended by signal {}", rank, WTERMSIG(end))
                                      : fmt::format("rank {}: ended with exit status {}", rank, WEXITSTATUS(end)));
    }
    if (!cut_failed_.empty()) report.complaints.push_back(cut_failed_);
    const std::vector<std::string> wrong = judge(s_, *board_);
    report.complaints.insert(report.complaints.end(), wrong.begin(), wrong.end());
    if (report.verdict == Verdict::right && !report.complaints.empty()) report.verdict = Verdict::wrong;
    report.detect_ms = detected_after(s_, *board_);
    report.recover_ms = recovered_after(s_, *board_);
    if (s_.fault == Fault::abort) report.abort_ms = static_cast<double>(board_->abort_took) / 1e6;
    return report;
  }

  void end_all() {
    lifeline_.reset();  // a victim's child ends by this
    for (Rank rank = 0; rank < s_.ranks; ++rank) {
      if (pids_[rank] <= 0 || ends_[rank] != kNotEnded) continue;
      ::kill(pids_[rank], SIGKILL);
      ::waitpid(pids_[rank], &ends_[rank], 0);
    }
    // The child became ours when the victim died.
    const pid_t helper = board_ == nullptr ? 0 : board_->place[s_.victim].helper.load();
    if (helper > 0) ::waitpid(helper, nullptr, 0);
    ::unlink(store_.c_str());
  }

  // What outlives all ranks.
  void look_for_leftovers(const std::string& folder, Report* report) const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      report->complaints.push_back("left behind: " + entry.path().string());
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
      if (entry.path().string().find("regroup") != std::string::npos)
        report->complaints.push_back("left behind: " + entry.path().string());
    }
    for (const pid_t pid : descendants()) report->complaints.push_back(fmt::format("left behind: process {}", pid));
    if (report->verdict == Verdict::right && !report->complaints.empty()) report->verdict = Verdict::wrong;
  }

  const Scenario& s_;
  std::string store_;
  Board* board_ = nullptr;
  base::Fd lifeline_;
  std::vector<pid_t> pids_;
  std::vector<int> ends_;
  std::string cut_failed_;
};

}  // namespace

Report run(const Scenario& scenario, const std::string& folder) { return Run(scenario, folder).play(folder); }

}  // namespace regroup::tool::chaos
