// SPDX-License-Identifier: Apache-2.0
#include "crew.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/fd.h"
#include "process_tree.h"

namespace regroup::tool {

namespace {

constexpr auto kPatience = std::chrono::seconds(5);  // from "the contest is over" to a signal, and on to SIGKILL
constexpr auto kLook = std::chrono::milliseconds(5);

std::string last_line(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line)) {
    if (line.find_first_not_of(" \t\r-") != std::string::npos) last = line;
  }
  return last;
}

}  // namespace

std::filesystem::path launcher_of(const std::string& peer) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "peers" / peer;
}

Crew::~Crew() { end(); }

bool Crew::fork_ranks(Rank ranks, const std::function<int(Rank)>& body) {
  const pid_t parent = ::getpid();
  for (Rank rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) return false;
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(::getppid() == parent ? body(rank) : 1);
    }
    pids_.push_back(child);
  }
  return true;
}

bool Crew::launch(const std::filesystem::path& launcher, Rank ranks, const std::string& contest,
                  const std::filesystem::path& folder) {
  launched_ = true;
  log_ = folder / (launcher.filename().string() + ".log");
  const base::Fd output(::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const base::Fd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::string words[] = {launcher.string(), std::to_string(ranks),
                               std::to_string(std::max(1u, std::thread::hardware_concurrency()))};
  char* arguments[] = {const_cast<char*>(words[0].c_str()), const_cast<char*>(words[1].c_str()),
                       const_cast<char*>(words[2].c_str()), nullptr};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::setenv("REGROUP_CONTEST", contest.c_str(), 1);
    ::setenv("REGROUP_CONTEST_FOLDER", folder.c_str(), 1);
    ::dup2(input.get(), STDIN_FILENO);
    ::dup2(output.get(), STDOUT_FILENO);
    ::dup2(output.get(), STDERR_FILENO);
    ::execv(arguments[0], arguments);
    ::_exit(127);
  }
  pids_.push_back(child);
  return true;
}

bool Crew::failed(std::string* why) {
  for (size_t at = 0; at < pids_.size(); ++at) {
    int status = 0;
    if (pids_[at] <= 0 || ::waitpid(pids_[at], &status, WNOHANG) != pids_[at]) continue;
    pids_[at] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const std::string how = WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                                : fmt::format("ended with exit status {}", WEXITSTATUS(status));
    if (!launched_) {
      *why = fmt::format("rank {} {}", at, how);
    } else {
      const std::string said = last_line(log_);
      *why = said.empty() ? "its launcher " + how : said;
    }
    return true;
  }
  return false;
}

bool Crew::running() const {
  return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; });
}

void Crew::end() {
  using Steady = std::chrono::steady_clock;
  std::string ignored;
  const auto wait_for_end = [&] {
    const Steady::time_point until = Steady::now() + kPatience;
    while (running() && Steady::now() < until) {
      (void)failed(&ignored);
      if (running()) std::this_thread::sleep_for(kLook);
    }
  };
  if (running()) wait_for_end();
  for (const int signal : {SIGTERM, SIGKILL}) {
    if (!running()) break;
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, signal);
    }
    wait_for_end();
  }
}

}  // namespace regroup::tool
