// SPDX-License-Identifier: Apache-2.0
// The messages half of a transport over stream sockets: one connected stream to each peer. It knows nothing of
// addresses and how the streams came about, and reads no peer's memory.
//
// A key is not used again after it was cancelled while bytes moved: the rest of the first try would be discarded, and
// the second would wait.
//
// Bytes that come early (no receive posted yet) are bounded by a window a peer; everything else waits at its sender
// until the receiver is ready, and then goes from the sender's memory into the receiver's without a copy in between.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "net/waker.h"
#include "transport/transport.h"

namespace regroup::transport {

struct TcpOptions {
  Rank rank = 0;
  Rank size = 1;
  uint64_t token = 0;  // names the job and group: frames with another one end the stream
  uint32_t epoch = 0;
  net::Waker* waker = nullptr;  // where the driver sleeps; outlives the transport. nullptr: the driver never sleeps
  // By rank: a connected stream socket to each peer; invalid at this rank, and at peers that are never named in a
  // message.
  std::vector<base::Fd> streams;
  // Once a peer at most, on the driver's thread, from within progress(): the stream has ended (peer_lost) or is broken
  // (io_error). What was posted with that peer stays posted; what had arrived whole can still be received.
  std::function<void(Rank peer, Status status)> on_lost;
  // On the driver's thread, from within progress() or begin(): a frame shows that `peer` called something else at an
  // earlier sequence number than the current one. May be repeated.
  std::function<void(Rank peer, uint64_t sequence)> on_late_conflict;
  // How long the destructor waits for the peers' kernels to take what finished sends have written. It does not wait
  // once a peer was lost: the group is broken then.
  std::chrono::milliseconds linger{500};
  // Nor once this is set: nobody needs any more what is on its way. Outlives the transport.
  const std::atomic<bool>* in_a_hurry = nullptr;
};

// Messages of the collective lane carry the fingerprint of the signature that `begin` was called with. nullptr: the
// system has no descriptor to spare.
std::unique_ptr<Transport> make_tcp_transport(TcpOptions options);

}  // namespace regroup::transport
