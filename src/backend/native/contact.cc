// SPDX-License-Identifier: Apache-2.0
#include "backend/native/contact.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/hash.h"

namespace regroup::backend::native {

std::string Contact::to_text() const {
  std::ostringstream text;
  text << "regroup " << version << ' ' << host << ' ' << machine << ' ' << wires << ' '
       << (library.empty() ? "-" : library) << ' ' << selection << ' ' << pid << ' ' << process << ' ' << segment << ' '
       << bell << ' ' << probe << ' ' << probe_word << ' ' << nonce << ' ' << epoch << ' ' << tcp << ' '
       << (unix_name.empty() ? "-" : unix_name);
  return text.str();
}

bool Contact::parse(const std::string& text, Contact* contact) {
  std::istringstream in(text);
  std::string magic;
  in >> magic >> contact->version >> contact->host >> contact->machine >> contact->wires >> contact->library >>
      contact->selection >> contact->pid >> contact->process >> contact->segment >> contact->bell >> contact->probe >>
      contact->probe_word >> contact->nonce >> contact->epoch >> contact->tcp >> contact->unix_name;
  if (contact->unix_name == "-") contact->unix_name.clear();
  if (contact->library == "-") contact->library.clear();
  return !in.fail() && magic == "regroup";
}

std::string host_identity(const std::string& label) {
  std::string boot = "unknown";
  if (std::ifstream file("/proc/sys/kernel/random/boot_id"); file) file >> boot;
  std::string identity = boot;
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/user"}) {
    char target[128];
    const ssize_t length = readlink(space, target, sizeof target);
    identity += '/' + std::string(target, length > 0 ? static_cast<size_t>(length) : 0);
  }
  std::ostringstream text;
  text << std::hex << base::hash_bytes(identity, base::hash_bytes(label));
  return text.str();
}

uint64_t random_word() {
  uint64_t word = 0;
  while (getrandom(&word, sizeof word, 0) != sizeof word) {
  }
  return word;
}

void allow_reads_by_peers() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (file >> scope && scope == 1) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

unsigned usable_cores(const std::vector<int>& pids) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return std::max(1u, std::thread::hardware_concurrency());
  for (const int pid : pids) {
    cpu_set_t one;
    if (sched_getaffinity(pid, sizeof one, &one) == 0) CPU_OR(&all, &all, &one);
  }
  return static_cast<unsigned>(CPU_COUNT(&all));
}

std::string Verdict::to_text() const { return (reads ? "reads " : "refused ") + std::to_string(threads); }

bool Verdict::parse(const std::string& text, Verdict* verdict) {
  std::istringstream in(text);
  std::string word;
  in >> word >> verdict->threads;
  verdict->reads = word == "reads";
  return !in.fail() && (verdict->reads || word == "refused") && verdict->threads > 0;
}

unsigned threads_for(unsigned own, unsigned cores, unsigned ranks, unsigned most) {
  return std::clamp(std::min(own, cores / std::max(ranks, 1u)), 1u, most);
}

}  // namespace regroup::backend::native
