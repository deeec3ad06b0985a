// SPDX-License-Identifier: Apache-2.0
#include "process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace regroup::tool {

namespace {

// The parent of a process; 0 if it has gone or is only waiting to be reaped.
pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the name may hold anything, parentheses too
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return 0;
  const char state = line[name_end + 2];
  if (state == 'Z' || state == 'X') return 0;
  return static_cast<pid_t>(std::atol(line.c_str() + name_end + 4));
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> descendants() {
  std::map<pid_t, std::vector<pid_t>> children;
  if (DIR* proc = ::opendir("/proc")) {
    while (const dirent* entry = ::readdir(proc)) {
      const pid_t pid = static_cast<pid_t>(std::atol(entry->d_name));
      if (pid <= 0) continue;
      if (const pid_t parent = parent_of(pid); parent > 0) children[parent].push_back(pid);
    }
    ::closedir(proc);
  }
  std::vector<pid_t> found = {::getpid()};
  for (size_t at = 0; at < found.size(); ++at) {
    const std::vector<pid_t>& next = children[found[at]];
    found.insert(found.end(), next.begin(), next.end());
  }
  found.erase(found.begin());
  return found;
}

size_t signal_descendants(int signal) {
  const std::vector<pid_t> all = descendants();
  for (const pid_t pid : all) ::kill(pid, signal);
  return all.size();
}

}  // namespace regroup::tool
