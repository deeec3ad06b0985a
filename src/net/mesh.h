// SPDX-License-Identifier: Apache-2.0
// Connects the members of a group with each other, every pair on every lane, once all know where the others listen. How
// they learnt that (a store, usually) is not its business.
//
// Rank i connects to every lower rank and accepts from every higher one, all at once, so no order of arrival can
// deadlock. Each connection opens with a hello of fixed size from the connecting side,
//   {u32 magic, u32 version, u64 token, u32 rank, u32 lane}   little-endian, 24 bytes,
// answered by the same with another magic and the answering rank. Whoever says anything else is a stranger and is
// dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "regroup/status.h"

namespace regroup::net {

struct MeshPeer {
  std::string tcp_address;  // "host:port"
  std::string unix_name;    // in the abstract namespace; empty where the peer has none
  bool same_host = false;   // as seen from this rank; symmetric
};

// What carries a lane. `local_unix`: Unix sockets between members that are `same_host`, TCP between others.
enum class LaneKind : uint8_t { tcp, local_unix };

struct MeshOptions {
  uint64_t token = 0;  // of job, group and epoch: members of another mesh are strangers
  std::vector<LaneKind> lanes;
  base::Time deadline;
  // Asked every few milliseconds: a failure ends the attempt with it. May be empty.
  std::function<Status()> interrupted;
};

// Where a rank is reached. Listens from construction on, so peers may connect before this rank builds its mesh.
class Listener {
 public:
  // TCP on `host` (empty: every address), a port the system chooses; with `local`, a Unix socket with a random name
  // too.
  static Result<Listener> open(const std::string& host, bool local);

  uint16_t port() const { return port_; }
  const std::string& unix_name() const { return unix_name_; }
  int tcp() const { return tcp_.get(); }
  int unix_socket() const { return unix_.get(); }  // -1 where there is none

 private:
  base::Fd tcp_;
  base::Fd unix_;
  uint16_t port_ = 0;
  std::string unix_name_;
};

// The connections as [lane][rank], non-blocking; the entry of `rank` itself is invalid. `peers` is indexed by rank and
// its own entry unused. `timeout` names the ranks that did not come; a refused connection is tried again until the
// deadline. A name in `tcp_address` is looked up once, at the start, and the resolver keeps no deadline of ours:
// publish addresses.
Result<std::vector<std::vector<base::Fd>>> connect_mesh(Listener& listener, Rank rank, std::span<const MeshPeer> peers,
                                                        const MeshOptions& options);

}  // namespace regroup::net
