// SPDX-License-Identifier: Apache-2.0
#include "chaos/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "arguments.h"
#include "base/hash.h"

namespace regroup::tool::chaos {

namespace {

using namespace std::chrono_literals;
using conformance::Case;
using conformance::Dimension;

constexpr const char* kFaultNames[kFaults] = {"kill", "stop", "continue", "partition", "abort", "slow"};
constexpr const char* kWireNames[kWires] = {"shm", "tcp", "mixed"};

// So long that a death is never noticed by it.
constexpr auto kNever = 10s;
// Late by less than this time-out is not dead, also on a machine that is busy with other things.
constexpr auto kPatient = 2s;

// 0 … bound − 1. What it is for keeps choices apart.
uint64_t draw(uint64_t seed, std::string_view what, uint64_t bound) {
  return base::mix(base::hash_bytes(what, seed), seed) % bound;
}

bool chance(uint64_t seed, std::string_view what, uint64_t percent) { return draw(seed, what, 100) < percent; }

// Small ones as likely as large ones.
uint64_t draw_size(uint64_t seed, std::string_view what, uint64_t least, uint64_t most) {
  const std::string name(what);
  uint64_t doublings = 0;
  while (least << (doublings + 1) <= most) ++doublings;
  const uint64_t low = least << draw(seed, name, doublings + 1);
  return std::min(most, low + draw(seed, name + " more", low));
}

Wire wire_of(const Wishes& wishes, uint64_t seed, Fault fault) {
  if (wishes.wire.has_value()) return *wishes.wire;
  // A network is cut, not a machine.
  if (fault == Fault::partition) return chance(seed, "wire", 50) ? Wire::tcp : Wire::mixed;
  return static_cast<Wire>(seed % kWires);
}

// Who is on which side of the cut: the victim and its neighbours, never more than half.
std::vector<bool> sides_of(const Scenario& s) {
  std::vector<bool> apart(s.ranks, false);
  const Rank width = s.fault == Fault::partition ? 1 + static_cast<Rank>(draw(s.seed, "width", s.ranks / 2)) : 1;
  for (Rank i = 0; i < width; ++i) apart[(s.victim + i) % s.ranks] = true;
  return apart;
}

std::vector<uint32_t> hosts_of(const Scenario& s) {
  std::vector<uint32_t> hosts(s.ranks, 0);
  // Each rank on a host of its own: then the control connections, too, are TCP.
  const bool each = s.wire == Wire::tcp && (s.fault == Fault::partition || chance(s.seed, "hosts", 50));
  const uint64_t shape = draw(s.seed, "shape", 3);
  for (Rank rank = 0; rank < s.ranks; ++rank) {
    if (each) hosts[rank] = rank;
    if (s.wire != Wire::mixed) continue;
    if (s.fault == Fault::partition)
      hosts[rank] = s.apart[rank];
    else if (shape == 0)
      hosts[rank] = rank >= (s.ranks + 1) / 2;
    else
      hosts[rank] = shape == 1 ? rank % 2 : rank == s.ranks - 1;
  }
  return hosts;
}

std::chrono::nanoseconds timeout_of(const Wishes& wishes, Fault fault) {
  if (fault == Fault::kill || fault == Fault::abort) return kNever;
  return fault == Fault::slow ? std::chrono::nanoseconds(kPatient) : wishes.timeout;
}

}  // namespace

const char* name(Fault fault) { return kFaultNames[static_cast<size_t>(fault)]; }
const char* name(Wire wire) { return kWireNames[static_cast<size_t>(wire)]; }

std::optional<Fault> parse_fault(const std::string& text) {
  for (int fault = 0; fault < kFaults; ++fault) {
    if (text == kFaultNames[fault]) return static_cast<Fault>(fault);
  }
  return std::nullopt;
}

std::optional<Wire> parse_wire(const std::string& text) {
  for (int wire = 0; wire < kWires; ++wire) {
    if (text == kWireNames[wire]) return static_cast<Wire>(wire);
  }
  return std::nullopt;
}

// What it leaves when divided by the number of wires says which wire it is: so they take turns, and the seed tells all.
uint64_t seed_of_run(uint64_t seed, uint64_t index) {
  return (base::mix(seed, index) >> 16) / kWires * kWires + index % kWires;
}

Scenario make_scenario(const Wishes& wishes, uint64_t run_seed) {
  Scenario s;
  s.seed = run_seed;
  s.ranks = wishes.ranks;
  s.fault = wishes.faults[draw(run_seed, "fault", wishes.faults.size())];
  s.wire = wire_of(wishes, run_seed, s.fault);
  s.victim = static_cast<Rank>(draw(run_seed, "victim", s.ranks));
  s.apart = sides_of(s);
  s.hosts = hosts_of(s);
  s.operation = static_cast<uint32_t>(draw(run_seed, "operation", 6));
  s.moment = s.fault == Fault::partition || chance(run_seed, "moment", 70) ? Moment::inside : Moment::before;
  if (s.moment == Moment::inside) s.delay = std::chrono::microseconds(draw_size(run_seed, "delay", 1, 4000));
  if (s.fault == Fault::slow) s.pause = std::chrono::milliseconds(50 + draw(run_seed, "pause", 250));
  s.timeout = timeout_of(wishes, s.fault);
  if (s.fault == Fault::kill) {
    const uint64_t memory = draw(run_seed, "resident", 10);
    s.resident = wishes.resident.value_or(memory < 6 ? 0 : memory < 9 ? 16 << 20 : 64 << 20);
    s.has_child = chance(run_seed, "child", 25);
  }
  s.says_goodbye = chance(run_seed, "goodbye", 50);
  // Where silence for a time-out means the fault, operations are short ones: who checks a result for long is silent.
  const bool short_ones = s.fault == Fault::stop || s.fault == Fault::resume || s.fault == Fault::partition;
  const uint64_t bytes = draw(run_seed, "bytes", 5);
  s.most_bytes = bytes < 2 ? 16 << 10 : short_ones ? 128 << 10 : bytes < 4 ? 512 << 10 : 4 << 20;
  return s;
}

Case operation_of(const Scenario& scenario, uint64_t life, uint64_t index, Rank ranks) {
  const uint64_t seed = base::mix(scenario.seed, base::mix(life, index));
  conformance::Row row{};
  for (const Dimension d :
       {Dimension::collective, Dimension::type, Dimension::spread, Dimension::placement, Dimension::form,
        Dimension::memory, Dimension::root, Dimension::order, Dimension::alignment, Dimension::size}) {
    const auto what = static_cast<char>('a' + static_cast<int>(d));
    row[static_cast<size_t>(d)] = static_cast<uint8_t>(draw(seed, {&what, 1}, value_names(d).size()));
  }
  // Send and receive have no part in it.
  row[static_cast<size_t>(Dimension::collective)] = static_cast<uint8_t>(draw(seed, "collective", 9));
  row[static_cast<size_t>(Dimension::call)] = static_cast<uint8_t>(draw(seed, "call", 3));  // run, start, prepared
  row[static_cast<size_t>(Dimension::values)] = static_cast<uint8_t>(draw(seed, "values", 2));
  const auto type = static_cast<DataType>(row[static_cast<size_t>(Dimension::type)]);
  uint64_t op = draw(seed, "op", kReduceOps);
  while (!conformance::meaningful(type, static_cast<ReduceOp::Kind>(op))) op = (op + 1) % kReduceOps;
  row[static_cast<size_t>(Dimension::op)] = static_cast<uint8_t>(op);
  Case c = conformance::case_of(conformance::normalized(row));
  c.ranks = ranks;
  c.bytes = draw_size(seed, "bytes", 8, scenario.most_bytes);
  c.checks_all = true;
  return c;
}

uint64_t values_of(const Scenario& scenario, uint64_t life, uint64_t index) {
  return base::mix(scenario.seed + 1, base::mix(life, index));
}

std::string describe(const Scenario& s) {
  std::string who = fmt::format("rank {}", s.victim);
  if (s.fault == Fault::partition) {
    who = "ranks";
    for (Rank rank = 0; rank < s.ranks; ++rank) {
      if (s.apart[rank]) who += fmt::format(" {}", rank);
    }
  }
  std::string text = fmt::format("{} {} of {} over {}, ", name(s.fault), who, s.ranks, name(s.wire));
  text += s.moment == Moment::before ? fmt::format("before operation {}", s.operation)
                                     : fmt::format("{} us into operation {}", s.delay.count() / 1000, s.operation);
  if (s.pause.count() > 0) text += fmt::format(", for {} ms", s.pause.count() / 1'000'000);
  if (s.resident > 0) text += fmt::format(", {} resident", human_bytes(s.resident));
  if (s.has_child) text += ", with a child that lives on";
  return text + fmt::format("; operations of up to {}", human_bytes(s.most_bytes));
}

}  // namespace regroup::tool::chaos
