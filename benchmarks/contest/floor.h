// SPDX-License-Identifier: Apache-2.0
// What implementations are measured by: the bytes that a collective must move, moved by nothing but copies, which none
// can beat, or by bare sockets as the system sets them up.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "regroup/types.h"

namespace regroup::contest {

// Bytes that a rank must at least write to memory, for `bytes` of its larger side. all_to_all, all_gather, broadcast:
// its whole output, for nothing else puts it there. all_reduce: 2(P−1)/P of the vector, as any algorithm that shares
// the work out evenly receives that much. reduce_scatter, reduce: (P−1)/P. gather: the root's whole output. scatter:
// one part.
uint64_t least_bytes(Collective collective, Rank ranks, uint64_t bytes);
// The same over a wire, in each direction: a rank's own part does not travel.
uint64_t least_wire_bytes(Collective collective, Rank ranks, uint64_t bytes);

// Copies between buffers of this rank that nobody else uses.
class CopyFloor {
 public:
  explicit CopyFloor(uint64_t most_bytes);
  // Finds out which is quicker here, memcpy or stores past the caches. All ranks at once.
  void choose(uint64_t bytes);
  void run(uint64_t bytes);

 private:
  void copy(uint64_t bytes, bool streaming);
  std::vector<std::byte> from_, to_;
  bool streaming_ = false;
};

// A TCP connection over loopback from every rank to the next, on which a rank sends and receives at once.
class SocketRing {
 public:
  // In the parent, before it forks.
  explicit SocketRing(Rank ranks);
  // In the parent, after.
  void close_all();
  // In rank `rank`. `send_buffer`: what the kernel may hold, in bytes; 0: as it sees fit. False if the system refuses.
  bool connect(Rank rank, int send_buffer = 0);
  // Sends from the first half of the buffer and receives into the second, again and again.
  bool exchange(std::byte* buffer, uint64_t buffer_bytes, uint64_t sends, uint64_t receives);

 private:
  std::vector<base::Fd> listeners_;
  std::vector<uint16_t> ports_;
  base::Fd right_, left_;
};

}  // namespace regroup::contest
