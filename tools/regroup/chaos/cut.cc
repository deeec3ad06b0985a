// SPDX-License-Identifier: Apache-2.0
#include "chaos/cut.h"

#include <dirent.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "base/fd.h"

namespace regroup::tool::chaos {

namespace {

int open_process(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
int take_descriptor(int process, int fd) { return static_cast<int>(::syscall(SYS_pidfd_getfd, process, fd, 0)); }

// One end of a stream, by the port that it has on this host.
struct End {
  base::Fd socket;
  bool far = false;
  uint16_t own = 0, peer = 0;  // peer 0: it listens
};

uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

std::optional<End> tcp_end(base::Fd socket) {
  sockaddr_storage own{}, peer{};
  socklen_t size = sizeof own;
  int type = 0;
  socklen_t type_size = sizeof type;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM) return {};
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  if (own.ss_family != AF_INET && own.ss_family != AF_INET6) return {};
  End end;
  end.own = port_of(own);
  size = sizeof peer;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0) end.peer = port_of(peer);
  end.socket = std::move(socket);
  return end;
}

std::vector<int> descriptors_of(pid_t pid) {
  std::vector<int> found;
  if (DIR* folder = ::opendir(fmt::format("/proc/{}/fd", pid).c_str())) {
    while (const dirent* entry = ::readdir(folder)) {
      if (entry->d_name[0] != '.') found.push_back(std::atoi(entry->d_name));
    }
    ::closedir(folder);
  }
  return found;
}

// What arrives is dropped before TCP sees it.
bool deafen(int socket) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {1, &drop};
  return ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace

std::string why_no_cuts() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  if (child < 0) return "a process cannot be forked";
  const base::Fd process(open_process(child));
  const base::Fd taken(process.valid() ? take_descriptor(process.get(), STDERR_FILENO) : -1);
  const int error = errno;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  // A child without that descriptor: the right was there.
  if (taken.valid() || error == EBADF) return {};
  return fmt::format("descriptors of a child cannot be taken here (pidfd_getfd: {})", std::strerror(error));
}

std::string cut(const std::vector<pid_t>& processes, const std::vector<bool>& far) {
  std::vector<End> ends;
  std::map<uint16_t, bool> side;  // by port
  for (size_t at = 0; at < processes.size(); ++at) {
    const base::Fd process(open_process(processes[at]));
    if (!process.valid()) return fmt::format("process {} cannot be opened: {}", processes[at], std::strerror(errno));
    for (const int fd : descriptors_of(processes[at])) {
      std::optional<End> end = tcp_end(base::Fd(take_descriptor(process.get(), fd)));
      if (!end) continue;
      end->far = far[at];
      side[end->own] = far[at];
      ends.push_back(std::move(*end));
    }
  }
  size_t deaf = 0;
  for (const End& end : ends) {
    const auto other = side.find(end.peer);
    if (other == side.end() || other->second == end.far) continue;
    if (!deafen(end.socket.get())) return fmt::format("a filter cannot be set: {}", std::strerror(errno));
    ++deaf;
  }
  return deaf > 0 ? std::string() : "there is no connection between the two sides";
}

}  // namespace regroup::tool::chaos
