// SPDX-License-Identifier: Apache-2.0
// Ranks on this host without a launcher: as threads of this process, or as forked processes.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "regroup/join.h"

namespace regroup {

namespace {

Status check_size(Rank size) {
  if (size > 0) return Status();
  return Status(StatusCode::invalid_argument, "a group has at least one rank; 0 were asked for");
}

Status run_rank(const JoinOptions& options, const std::function<void(ProcessGroup&)>& body) {
  Result<ProcessGroup> joined = join(options);
  if (!joined.ok()) return joined.status();
  try {
    body(joined.value());
  } catch (const Error& error) {
    joined->abort(error.what());
    return error.status();
  } catch (const std::exception& error) {
    joined->abort(error.what());
    return Status(StatusCode::internal,
                  std::string("rank ") + std::to_string(*options.rank) + " threw: " + error.what(), {*options.rank});
  }
  return Status();
}

}  // namespace

Status run_local(Rank size, const std::function<void(ProcessGroup&)>& body, JoinOptions options) {
  if (Status status = check_size(size); !status.ok()) return status;
  if (options.store == nullptr) options.store = make_hash_store();
  options.size = size;
  std::mutex mutex;
  Status first;
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank, options]() mutable {
      options.rank = rank;
      Status status = run_rank(options, body);
      std::lock_guard lock(mutex);
      // The rank that failed first tells the cause; the others' failures follow from it.
      if (first.ok()) first = std::move(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return first;
}

namespace {

int forked_rank(Rank rank, const std::function<int(ProcessGroup&)>& body, JoinOptions options) {
  options.rank = rank;
  Result<ProcessGroup> joined = join(options);
  if (!joined.ok()) {
    std::fprintf(stderr, "regroup: rank %u: %s\n", rank, joined.status().to_string().c_str());
    return 125;
  }
  try {
    return body(joined.value());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "regroup: rank %u threw: %s\n", rank, error.what());
    return 124;
  }
}

// Waits for all children until the deadline; ends those that are left.
Status reap(std::vector<pid_t>& children, base::Time deadline) {
  Status first;
  size_t left = children.size();
  bool ended = false;
  auto pause = std::chrono::microseconds(200);
  while (left > 0) {
    bool any = false;
    for (Rank rank = 0; rank < children.size(); ++rank) {
      int how = 0;
      if (children[rank] == 0 || waitpid(children[rank], &how, WNOHANG) != children[rank]) continue;
      children[rank] = 0;
      --left;
      any = true;
      if (WIFEXITED(how) && WEXITSTATUS(how) == 0) continue;
      const std::string why = WIFSIGNALED(how) ? "was ended by signal " + std::to_string(WTERMSIG(how))
                                               : "returned " + std::to_string(WEXITSTATUS(how));
      if (first.ok()) first = Status(StatusCode::peer_lost, "rank " + std::to_string(rank) + " " + why, {rank});
    }
    if (any) continue;
    if (!ended && base::Clock::now() >= deadline) {
      std::vector<Rank> late;
      for (Rank rank = 0; rank < children.size(); ++rank) {
        if (children[rank] == 0) continue;
        late.push_back(rank);
        kill(children[rank], SIGKILL);
      }
      if (first.ok())
        first = Status(StatusCode::timeout, std::to_string(late.size()) + " ranks did not end in time", late);
      ended = true;
    }
    usleep(static_cast<useconds_t>(pause.count()));
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  return first;
}

}  // namespace

Status run_forked(Rank size, const std::function<int(ProcessGroup&)>& body, JoinOptions options) {
  if (Status status = check_size(size); !status.ok()) return status;
  options.size = size;
  std::string directory;
  if (options.store == nullptr && !options.store_url.has_value()) {
    char name[] = "/tmp/regroup-XXXXXX";
    if (mkdtemp(name) == nullptr)
      return Status(StatusCode::io_error, "no temporary directory can be made for the ranks' store");
    directory = name;
    options.store_url = "file://" + directory + "/store";
  }
  const base::Time deadline = base::deadline_after(options.timeout.value_or(std::chrono::minutes(5)));
  std::fflush(nullptr);
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  Status failed;
  for (Rank rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(126);
      const int code = forked_rank(rank, body, options);
      std::fflush(nullptr);
      _exit(code);
    }
    if (child < 0) {
      failed = Status(StatusCode::resource_exhausted, "rank " + std::to_string(rank) + " cannot be forked");
      for (const pid_t started : children) kill(started, SIGKILL);
      break;
    }
    children.push_back(child);
  }
  Status reaped = reap(children, deadline);
  if (!directory.empty()) {
    unlink((directory + "/store").c_str());
    rmdir(directory.c_str());
  }
  return failed.ok() ? reaped : failed;
}

}  // namespace regroup
