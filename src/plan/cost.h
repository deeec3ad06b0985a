// SPDX-License-Identifier: Apache-2.0
// The price of a collective by a latency/bandwidth model (Hockney's α + β·n for each kind of link): every rank works
// through its steps in their order, one thing at a time; messages and marks tie the ranks together, and ranks that
// share a core wait for it. A rough figure, good for comparing algorithms; what caches, memory controllers and other
// programs do is in it only as far as two constants can say it.
#pragma once

#include <cstdint>
#include <span>

#include "plan/schedule.h"
#include "plan/topology.h"

namespace regroup::plan {

struct Link {
  double latency_us;   // α: from one side to the other, whatever the size
  double us_per_byte;  // β
};

// A way of messages: what the wire does, and what it costs the processors of both sides.
struct Wire {
  Link link;
  double side_us;           // for a message, on each side
  double side_us_per_byte;  // likewise
};

// The constants are a fit to what `regroup bench --tune` measured on one virtual machine: see
// docs/decisions/cost-model.md. The network between hosts is not: 25 Gbit/s Ethernet, roughly.
struct CostModel {
  Link memory{0.05, 1.0 / 29e3};                        // copies and folds of a rank's own memory, for each operand
  Link reads{0.35, 1.0 / 7.1e3};                        // reads of a peer's ordinary memory
  Link mapped_reads{0.01, 1.0 / 19e3};                  // and of memory that is mapped
  Wire inside_host{{1.6, 0}, 0.4, 1.0 / 15e3};          // messages by shared memory
  Wire loopback{{0, 0}, 2.8, 1.0 / 6.8e3};              // messages by TCP inside a host
  Wire network{{15.0, 1.0 / 2.5e3}, 2.8, 1.0 / 6.8e3};  // and between hosts
  double mark_us = 1.3;                                 // from publishing a mark to its being seen
  double step_us = 0.01;                                // the executor's own work
  double switch_us = 2.9;                               // a core goes over to another rank
  double cache_bytes = 4e6;                             // what all ranks of a host together move inside the caches
  double beyond_cache = 4;                              // how much dearer the bytes are that leave them
  bool mapped = false;                                  // which reads
  unsigned cores = 0;                                   // of each host, for its ranks in turn; 0: as many as they want
  unsigned threads = 1;                                 // of each rank, as far as there are cores for them
  double team_us = 1.5;                                 // to call the others in for a step
  double team_from = 128 << 10;                         // bytes of a step that is shared among threads
  double bandwidth = 12;                                // of a host's memory: as much as so many threads make use of
};

// By how much the threads of a rank speed up a large copy, read or fold, where `ranks` ranks share a host and all do
// the same: at most by their number; by the cores that each rank has; and by its share of the memory bandwidth.
double team_gain(const CostModel& model, Rank ranks);

struct Cost {
  double us = 0;            // until the last rank is done
  uint64_t steps = 0;       // of the rank with the most
  uint64_t sent_bytes = 0;  // as messages, by the rank that sends most
  uint64_t read_bytes = 0;  // from peers' memory, by the rank that reads most
  uint64_t total_sent_bytes = 0;
  uint64_t total_read_bytes = 0;
  bool complete = true;  // false: the schedules wait for each other for ever
};

// `schedules`: one a rank, in rank order. Messages inside a host go by TCP where `messages_only`, else by shared
// memory.
Cost predict(std::span<const Schedule> schedules, const Topology& topology, uint64_t element_bytes, bool messages_only,
             const CostModel& model = {});

}  // namespace regroup::plan
