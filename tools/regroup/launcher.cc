// SPDX-License-Identifier: Apache-2.0
#include "launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "keeper.h"
#include "output.h"
#include "process_tree.h"

namespace regroup::tool {

int launch(const LaunchOptions& options) {
  const sigset_t signals = supervised_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  adopt_orphans();
  const pid_t self = ::getpid();
  const pid_t keeper = ::fork();
  if (keeper < 0) {
    note("regroup run: cannot start a process\n");
    return 1;
  }
  if (keeper == 0) {
    ::setpgid(0, 0);  // the terminal's signals come to the launcher alone, which passes them on
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != self) ::_exit(1);
    ::_exit(Keeper(options).run());
  }
  int status = 0;
  while (true) {
    int caught = 0;
    ::sigwait(&signals, &caught);
    if (caught != SIGCHLD) {
      ::kill(keeper, caught);
      continue;
    }
    pid_t ended;
    while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended == keeper) break;
    }
    if (ended == keeper) break;
  }
  // Normally nothing is left; if the keeper was killed, its ranks' children are.
  while (signal_descendants(SIGKILL) > 0) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    ::usleep(1000);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace regroup::tool
