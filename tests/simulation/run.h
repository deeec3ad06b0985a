// SPDX-License-Identifier: Apache-2.0
// Runs operations, one after the other, on all ranks of a simulated group, by the executor that ships.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/eager.h"
#include "executor/execution.h"
#include "simulation/operation.h"
#include "transport/sim/sim_network.h"

namespace regroup::simulation {

// One rank's work: as a backend does it, but without deadlines and without news from outside.
class Driver {
 public:
  enum class Verdict : uint8_t {
    none,
    done,        // all operations, and all came out right
    wrong,       // `text()`
    conflict,    // ranks called different things: before data moved, `conflict()`
    mismatched,  // found by a message: `message()`
    withdrawn,   // a peer took its memory back: `lost_rank()`
    lost,
  };

  Driver(transport::sim::SimTransport& transport, Rank rank, std::vector<Operation>& operations, uint64_t seed);

  transport::sim::SimNetwork::Turn turn();
  // What a rank does whose operation fails: takes its memory back, after which nobody may count what it reads there.
  // Nothing if it is over.
  void fail();
  // This rank says that it calls something else.
  void set_signature(const transport::Signature& signature) { other_signature_ = &signature; }

  Verdict verdict() const { return verdict_; }
  const std::string& text() const { return text_; }
  const transport::Conflict& conflict() const { return conflict_; }
  const transport::Message& message() const { return execution_.mismatch(); }
  Rank lost_rank() const { return operations_[at_].eager ? eager_.lost_rank() : execution_.lost_rank(); }
  // Empty, or what was written after its operations were over.
  std::string check_later() const;
  std::string describe() const;

 private:
  enum class Phase : uint8_t { idle, eager, gathering, running, over };

  Operation& operation() { return operations_[at_]; }
  void begin();
  void begin_planned(RankMemory& memory, const transport::Signature& signature);
  bool run();
  void finish();
  void end(Verdict verdict);

  transport::sim::SimTransport& transport_;
  const Rank rank_;
  std::vector<Operation>& operations_;
  std::mt19937_64 random_;
  size_t at_ = 0;
  Phase phase_ = Phase::idle;
  Verdict verdict_ = Verdict::none;
  std::string text_;
  transport::Conflict conflict_;
  const transport::Signature* other_signature_ = nullptr;
  std::vector<uint64_t> gives_, takes_;
  std::vector<std::unique_ptr<RankMemory>> memories_;  // of all operations so far
  executor::Execution execution_;
  executor::Eager eager_;
};

// All ranks of a group.
class Group {
 public:
  Group(const transport::sim::SimOptions& options, std::vector<Operation>& operations);

  transport::sim::SimNetwork::Ending run();
  Rank size() const { return static_cast<Rank>(drivers_.size()); }
  Driver& driver(Rank rank) { return *drivers_[rank]; }
  transport::sim::SimNetwork& network() { return network_; }
  // Called before each turn of a rank.
  std::function<void(Rank)> before_turn;
  // What is wrong whatever the ranks were meant to do: wrong results, stray writes, violations of the contract.
  std::string wrongs() const;
  // Who waits for what.
  std::string describe() const;

 private:
  transport::sim::SimNetwork network_;
  std::vector<std::unique_ptr<Driver>> drivers_;
};

struct RunResult {
  std::string failure;  // empty: every rank is done and all is right
  uint64_t trace = 0;
};

RunResult run_operations(const transport::sim::SimOptions& options, std::vector<Operation>& operations);

}  // namespace regroup::simulation
