// SPDX-License-Identifier: Apache-2.0
// The control channel of a group: small frames between any two members over connections of their own, so that bulk data
// can neither delay them nor be confused with them. One service thread a process reads all groups' control connections
// and calls the handlers; it sleeps when nothing comes. Local peers are connected by Unix sockets and can pass
// descriptors.
//
// It is also how members learn of each other's death. A peer of this host that is another process is watched in three
// ways: by a word that its kernel marks (vital.h), by its pidfd, by its socket. Only the first is quick where it held
// much memory; only the first two tell where a child that it forked keeps its end of the socket open. A peer on another
// host is watched by its connection alone, and its host by keep-alive.
#pragma once

#include <chrono>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "regroup/status.h"

namespace regroup::net {

inline constexpr auto kLiveness = std::chrono::seconds(1);  // where nobody says otherwise

enum class ControlKind : uint8_t {
  state = 1,              // what the sender last began: sequence, signature
  ask = 2,                // please send your state
  notice = 3,             // an operation failed for all, or the group did: sequence, code, ranks to blame, text
  descriptor_wanted = 4,  // a mapped segment's descriptor, by id
  descriptor = 5,         // the answer, with the descriptor attached (or without: no such segment)
  segment_freed = 6,
  leave = 7,      // an orderly end follows
  agreement = 8,  // a message of an agreement among the members
  rejoin = 9,     // the next life: its epoch, the stage of its meeting, a text
  moved_on = 10,  // the sender lives on in a next life; `leave` follows
  vital = 11,  // to a local peer: the word by which the sender's process can be watched, with its memory's descriptor
};

// How a peer was lost.
enum class Ending : uint8_t {
  left,           // it said so
  process_ended,  // its own kernel says so: its process is no more, or has at least closed its end
  host_silent,    // its host gave no answer in time, or no way leads to it: it may live
  unusable,       // it said what cannot be understood, or this process cannot listen
};

class Control {
 public:
  static constexpr uint32_t kMaxPayload = 4096;  // bytes; longer frames from a peer end the connection

  // Called on the service thread; must not block. `descriptor` is invalid where none came along.
  using Handler =
      std::function<void(Rank from, ControlKind kind, std::span<const std::byte> payload, base::Fd descriptor)>;
  // Called once a peer, on the service thread, when all that came from it was handled. No handler sees `leave` or
  // `vital`.
  using Closed = std::function<void(Rank peer, Ending ending)>;

  // As `leave`.
  virtual ~Control() = default;

  // Starts calling the handlers. Where the service thread cannot be had (no descriptors, no threads), every peer is
  // Closed at once, from here.
  virtual void start(Handler handler, Closed closed) = 0;

  // Says `leave`, flushes for at most `patience`, closes. From any thread, a handler included (which then flushes only
  // what fits at once), any number of times. No handler runs afterwards (but the one that it was called from, if any),
  // and `send` fails. The child of a fork has no connections: there `send` fails and this does nothing.
  virtual void leave(base::Duration patience) = 0;

  // Queues a frame; any thread; never blocks. False: the connection is gone, or the bounded queue to a peer that does
  // not read is full. `descriptor` (optional, local peers only) is duplicated.
  virtual bool send(Rank peer, ControlKind kind, std::span<const std::byte> payload, int descriptor = -1) = 0;

  // The process at the other end as the kernel tells (SO_PEERCRED), 0 where unknown.
  virtual int pid_of(Rank peer) const = 0;
};

// Takes over connected stream sockets, one a peer (invalid at index `rank`). A host that has not answered for
// `liveness` is silent; where nothing is sent, that is noticed up to a second later.
std::unique_ptr<Control> make_control(Rank rank, std::vector<base::Fd> connections,
                                      std::chrono::nanoseconds liveness = kLiveness);

}  // namespace regroup::net
