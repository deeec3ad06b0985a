// SPDX-License-Identifier: Apache-2.0
// What a rank tells the others before they are connected: where it is, and what it shares.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace regroup::backend::native {

// Changes when what ranks publish to each other changes.
inline constexpr int kWireVersion = 4;

struct Contact {
  int version = kWireVersion;
  std::string host;     // equal where ranks can share memory
  std::string machine;  // equal where they share cores
  int wires = 0;
  std::string library;     // the module that carries operations; empty: none
  uint64_t selection = 0;  // by which table algorithms are chosen
  int pid = 0;
  uint64_t process = 0;
  uint64_t segment = 0;  // of the control segment; 0: no shared memory
  int bell = -1;
  uint64_t probe = 0;       // an address of this process
  uint64_t probe_word = 0;  // what is there
  uint64_t nonce = 0;
  uint64_t epoch = 0;  // of the life before; 0: none
  std::string tcp;
  std::string unix_name;

  std::string to_text() const;
  // False where the text is no contact.
  static bool parse(const std::string& text, Contact* contact);
};

// The same on all ranks that can pass descriptors to each other and see each other's process ids, and were given the
// same label.
std::string host_identity(const std::string& label);

// From the system's source of randomness.
uint64_t random_word();

// Where the kernel lets only ancestors read a process (Yama), says that peers may.
void allow_reads_by_peers();

// How many cores this thread and those processes may use together. Launchers pin each rank to a core of its own: what
// one rank may use says nothing about whether it has to share.
unsigned usable_cores(const std::vector<int>& pids);

// The second thing that ranks tell each other: what they found out about each other once they were connected.
struct Verdict {
  bool reads = false;    // whether this rank can read its neighbours' memory
  unsigned threads = 1;  // that this rank has cores for, or was told to have

  std::string to_text() const;
  static bool parse(const std::string& text, Verdict* verdict);
};

// Threads of each of `ranks` ranks that share `cores` cores, where this one may use `own` of them: at least 1, at most
// `most`.
unsigned threads_for(unsigned own, unsigned cores, unsigned ranks, unsigned most);

}  // namespace regroup::backend::native
