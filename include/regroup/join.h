// SPDX-License-Identifier: Apache-2.0
// Becoming a member of a group.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "regroup/group.h"
#include "regroup/status.h"
#include "regroup/store.h"

namespace regroup {

// What is unset is taken from the environment: REGROUP_STORE, REGROUP_RANK, REGROUP_SIZE, REGROUP_TIMEOUT,
// REGROUP_LIVENESS, REGROUP_BACKEND, REGROUP_TRANSPORT, REGROUP_INTERFACE (or GLOO_SOCKET_IFNAME), REGROUP_TUNING,
// REGROUP_THREADS; else from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun and `regroup run` set them.
struct JoinOptions {
  std::shared_ptr<Store> store;          // or:
  std::optional<std::string> store_url;  // "tcp://host:port/prefix", "file:///path"
  std::optional<Rank> rank;
  std::optional<Rank> size;
  // For joining, and the group's default for operations. 5 minutes where nobody says otherwise.
  std::optional<std::chrono::nanoseconds> timeout;
  // How long the system of another rank's host may give no answer before that rank is lost: 1 s where nobody says
  // otherwise, and up to 1 s more in which nothing is sent. A rank that is late or stopped is not lost: its host
  // answers. Under some 0.5 s, a packet that was dropped on the way can look like a host that is gone.
  std::optional<std::chrono::nanoseconds> liveness;
  // What carries out operations: "auto", "native" (regroup's own), or the name of a library (`regroup capabilities`
  // lists those that are here). The same on all ranks.
  std::optional<std::string> backend;
  std::optional<std::string> transport;  // "auto" (shm inside a host, tcp between), "shm", "tcp"
  std::optional<std::string> interface;  // whose address others shall use
  // A file made by `regroup bench --tune`, with the same rows on all ranks: which algorithm is best for what.
  // Empty: none, whatever the environment says.
  std::optional<std::string> tuning;
  // Threads of a rank for large copies and reductions, the one that drives the group included: 1 (none besides it) to
  // 16. The group uses the least that any of its ranks has. Unset: a rank's share of the cores.
  std::optional<uint32_t> threads;
  // Two joins through one store need different names (or one after the other the same).
  std::string name = "world";
  // Asks to be admitted to the group that was joined under this name, and waits for its members to call `grow`. Rank
  // and size are theirs to say.
  bool newcomer = false;
  // Ranks with different labels count as being on different hosts although they are not: for trying mixed groups on
  // one.
  std::string host_label;
  // Refuse reads of other processes' memory, as a hardened kernel would.
  bool cross_process_reads = true;
};

// Returns when all ranks have come, or at the deadline with the ranks that did not.
Result<ProcessGroup> join(JoinOptions options = {});

// `size` ranks as threads of this process; returns when all have returned: ok, or the first failure. What `body` throws
// becomes `internal` with the message.
Status run_local(Rank size, const std::function<void(ProcessGroup&)>& body, JoinOptions options = {});

// `size` ranks as forked processes; the exit status of a rank is what `body` returns. ok if all return 0. A rank that a
// signal ends or that returns another value makes it `peer_lost` with that rank; the others are ended at the deadline
// (`options.timeout`, as a limit for the whole).
Status run_forked(Rank size, const std::function<int(ProcessGroup&)>& body, JoinOptions options = {});

}  // namespace regroup
