// SPDX-License-Identifier: Apache-2.0
// The price of a collective by a latency/bandwidth model (Hockney's α + β·n for each kind of link): every rank works
// through its steps in their order, one thing at a time; messages and marks tie the ranks together. A rough figure,
// good for comparing algorithms, with no claim on what caches, memory controllers or other programs do.
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

struct CostModel {
  Link memory{0.02, 1.0 / 8e3};      // copies and folds on one rank; 8 GB/s for each operand
  Link inside_host{0.3, 1.0 / 6e3};  // reads of a peer's memory, and messages on one host
  Link network{15.0, 1.0 / 2.5e3};   // messages between hosts; 2.5 GB/s, as over loopback TCP
  double mark_us = 0.1;              // a published mark is seen
  double step_us = 0.02;             // the executor's own work
};

struct Cost {
  double us = 0;            // until the last rank is done
  uint64_t steps = 0;       // of the rank with the most
  uint64_t sent_bytes = 0;  // as messages, by the rank that sends most
  uint64_t read_bytes = 0;  // from peers' memory, by the rank that reads most
  uint64_t total_sent_bytes = 0;
  uint64_t total_read_bytes = 0;
  bool complete = true;  // false: the schedules wait for each other for ever
};

// `schedules`: one a rank, in rank order. All messages go over the network where `messages_only`; otherwise those
// inside a host do not.
Cost predict(std::span<const Schedule> schedules, const Topology& topology, uint64_t element_bytes, bool messages_only,
             const CostModel& model = {});

}  // namespace regroup::plan
