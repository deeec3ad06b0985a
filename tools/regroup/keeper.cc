// SPDX-License-Identifier: Apache-2.0
#include "keeper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "output.h"
#include "process_tree.h"
#include "regroup/store.h"

namespace regroup::tool {

namespace {

constexpr int kTimedOut = 124;  // as timeout(1) does
constexpr int kNotFound = 127, kNotStarted = 126;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// This process's environment with `more` (NAME=value) instead of what had the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool replaced =
        std::any_of(more.begin(), more.end(), [&name](const std::string& one) { return one.starts_with(name); });
    if (!replaced) all.push_back(text);
  }
  return all;
}

}  // namespace

sigset_t supervised_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::sigaddset(&set, signal);
  return set;
}

int Keeper::run() {
  adopt_orphans();
  Result<std::shared_ptr<StoreServer>> server = serve_store("tcp://127.0.0.1:0");
  if (!server.ok()) {
    note("regroup run: no store for the ranks: {}\n", server.status().to_string());
    return 1;
  }
  const std::string address = server.value()->address();
  const size_t colon = address.rfind(':');
  if (!start_ranks(address.substr(0, colon), address.substr(colon + 1))) return 1;

  const std::optional<Steady::time_point> deadline =
      options_.timeout ? std::optional(begin_ + *options_.timeout) : std::nullopt;
  while (running() > 0) {
    std::optional<Steady::time_point> until = deadline;
    if (ending_) until = kill_at_;
    wait_for_signal(until);
    reap();
    if (running() == 0) break;
    if (ending_ && Steady::now() >= kill_at_) {
      signal_descendants(SIGKILL);
      kill_at_ = Steady::now() + std::chrono::milliseconds(100);
    } else if (!ending_ && deadline && Steady::now() >= *deadline) {
      note("regroup run: the time-out passed; ending {} ranks\n", running());
      status_ = kTimedOut;
      ending_ = true;
      kill_at_ = Steady::now() + options_.grace;
      signal_descendants(SIGTERM);
    }
  }
  end_tree();
  if (options_.json) report();
  return status_;
}

bool Keeper::start_ranks(const std::string& host, const std::string& port) {
  const std::string size = std::to_string(options_.ranks);
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    const std::string number = std::to_string(rank);
    // torch's clients connect to a store that is served for them if they are told so in torchrun's way.
    const std::vector<std::string> environment =
        environment_with({"REGROUP_STORE=tcp://" + host + ":" + port, "REGROUP_RANK=" + number, "REGROUP_SIZE=" + size,
                          "RANK=" + number, "LOCAL_RANK=" + number, "WORLD_SIZE=" + size, "LOCAL_WORLD_SIZE=" + size,
                          "MASTER_ADDR=" + host, "MASTER_PORT=" + port, "TORCHELASTIC_USE_AGENT_STORE=True"});
    const pid_t child = ::fork();
    if (child == 0) become_rank(rank, environment);
    if (child < 0) {
      note("regroup run: cannot start rank {}: {}\n", rank, std::strerror(errno));
      signal_descendants(SIGKILL);
      return false;
    }
    ::setpgid(child, child);
    ranks_.push_back(child);
  }
  return true;
}

void Keeper::become_rank(uint32_t rank, const std::vector<std::string>& environment) const {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const sigset_t signals = supervised_signals();
  // Standard input is rank 0's if it is a file or a pipe; a terminal would stop a background process that reads it.
  if (rank != 0 || ::isatty(STDIN_FILENO)) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  }
  const std::vector<char*> arguments = pointers(options_.program), variables = pointers(environment);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::execvpe(arguments[0], arguments.data(), variables.data());
  const int error = errno;
  if (rank == 0) note("regroup run: cannot start {}: {}\n", options_.program[0], std::strerror(error));
  ::_exit(error == ENOENT ? kNotFound : kNotStarted);
}

void Keeper::wait_for_signal(std::optional<Steady::time_point> until) {
  const sigset_t signals = supervised_signals();
  int caught;
  if (until) {
    const auto left = std::max(*until - Steady::now(), Steady::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec time{seconds.count(), (left - seconds).count()};
    caught = ::sigtimedwait(&signals, nullptr, &time);
  } else {
    caught = ::sigwaitinfo(&signals, nullptr);
  }
  if (caught > 0 && caught != SIGCHLD) forward(caught);
}

void Keeper::forward(int signal) {
  for (const pid_t rank : ranks_) {
    if (rank > 0) ::kill(-rank, signal);
  }
  if (signal == SIGUSR1 || signal == SIGUSR2) return;
  if (!ending_) kill_at_ = Steady::now() + options_.grace;
  ending_ = true;
  if (status_ == 0) status_ = 128 + signal;
}

void Keeper::reap() {
  int status = 0;
  pid_t ended;
  while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
    const auto rank = std::find(ranks_.begin(), ranks_.end(), ended);
    if (rank == ranks_.end()) continue;  // an adopted orphan
    *rank = 0;
    rank_ended(static_cast<uint32_t>(rank - ranks_.begin()), status);
  }
}

void Keeper::rank_ended(uint32_t rank, int status) {
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code == 0 || first_failed_ || ending_) return;
  first_failed_ = rank;
  status_ = code;
  if (WIFSIGNALED(status)) {
    note("regroup run: rank {} was ended by signal {} ({})\n", rank, WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  } else {
    note("regroup run: rank {} exited with {}\n", rank, code);
  }
  ending_ = true;
  kill_at_ = Steady::now() + options_.grace;
  signal_descendants(SIGTERM);
}

// Whoever is left when all ranks have ended: processes that they started.
void Keeper::end_tree() {
  if (signal_descendants(SIGTERM) == 0) return;
  const Steady::time_point end = Steady::now() + options_.grace;
  while (!descendants().empty()) {
    if (Steady::now() >= end) signal_descendants(SIGKILL);
    ::usleep(2000);
    reap();
  }
}

size_t Keeper::running() const {
  return static_cast<size_t>(std::count_if(ranks_.begin(), ranks_.end(), [](pid_t pid) { return pid > 0; }));
}

void Keeper::report() const {
  Json object;
  object["ranks"] = options_.ranks;
  object["exit"] = status_;
  object["first_failed"] = first_failed_ ? Json(*first_failed_) : Json();
  object["seconds"] = std::chrono::duration<double>(Steady::now() - begin_).count();
  print_json(object);
}

}  // namespace regroup::tool
