// SPDX-License-Identifier: Apache-2.0
// Runs a test's body as the ranks of a group, threads of this process, over each way that bytes can take.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "regroup/regroup.h"

namespace regroup {

struct Wire {
  const char* name;
  const char* transport;
  bool mixed = false;  // two hosts: the first half of the ranks, and the rest
  bool reads = true;
};
inline constexpr Wire kWires[] = {
    {"shm", "shm"}, {"shm without reads", "shm", false, false}, {"tcp", "tcp"}, {"mixed", "auto", true}};

inline JoinOptions options_for(const Wire& wire, Rank rank, Rank size, std::chrono::nanoseconds timeout) {
  JoinOptions options;
  options.rank = rank;
  options.size = size;
  options.timeout = timeout;
  options.transport = wire.transport;
  options.cross_process_reads = wire.reads;
  if (wire.mixed) options.host_label = rank < (size + 1) / 2 ? "a" : "b";
  return options;
}

// For bodies: throws unless `holds`.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Status(StatusCode::internal, what));
}

// How each rank's body ended: what it returned, or threw. A rank that fails aborts the group, so that none waits long.
template <typename Body>
std::vector<Status> run_on_wire(const Wire& wire, Rank size, const Body& body, std::chrono::nanoseconds timeout) {
  const auto store = make_hash_store();
  std::vector<Status> statuses(size);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      JoinOptions options = options_for(wire, rank, size, timeout);
      options.store = store;
      Result<ProcessGroup> group = join(options);
      if (!group.ok()) {
        statuses[rank] = group.status();
        return;
      }
      try {
        if constexpr (std::is_void_v<decltype(body(*group))>) {
          body(*group);
        } else {
          statuses[rank] = body(*group);
        }
      } catch (const Error& error) {
        statuses[rank] = error.status();
        group->abort("rank " + std::to_string(rank) + " failed: " + error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

template <typename Body>
void on_wires(std::span<const Wire> wires, Rank size, const Body& body,
              std::chrono::nanoseconds timeout = std::chrono::seconds(20)) {
  for (const Wire& wire : wires) {
    SCOPED_TRACE(wire.name);
    const std::vector<Status> statuses = run_on_wire(wire, size, body, timeout);
    for (Rank rank = 0; rank < size; ++rank)
      EXPECT_TRUE(statuses[rank].ok()) << "rank " << rank << " of " << size << ": " << statuses[rank].to_string();
  }
}

template <typename Body>
void on_every_wire(Rank size, const Body& body, std::chrono::nanoseconds timeout = std::chrono::seconds(20)) {
  on_wires(kWires, size, body, timeout);
}

}  // namespace regroup
