// SPDX-License-Identifier: Apache-2.0
// A schedule's messages over those of a module. All ranks have begun the same operation, with sizes that fit, before
// anything is posted here (the group's own wires saw to that): so messages carry no headers, and nothing arrives that
// was not posted. No reads of peers' memory, no sends and receives of callers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "module/session.h"
#include "transport/transport.h"

namespace regroup::transport {

class ModuleTransport final : public Transport {
 public:
  explicit ModuleTransport(module::Session& session) : session_(session) {}

  std::string_view name() const override { return session_.module().name(); }
  bool one_sided(Rank) const override { return false; }
  void begin(const Opening&) override {}
  Gathering gathered(Conflict*) override { return Gathering::complete; }
  void end() override {}
  void withdraw() override {}
  Located locate(Rank, uint16_t, plan::Space, uint32_t, uint64_t, uint64_t) override { return {}; }
  bool read(Rank, uint64_t, std::byte*, uint64_t) override { return false; }
  bool counts(Rank) override { return false; }
  void notify(plan::Mark) override {}
  bool notified(Rank, plan::Mark) override { return false; }
  std::byte* scratch(uint64_t) override { return nullptr; }  // the group's own transport has it
  void post_send(Message& message) override { post(message, true); }
  void post_receive(Message& message) override { post(message, false); }
  void cancel(Message& message) override;
  Rank announced(uint32_t, std::span<const uint64_t>) override { return plan::kNoRank; }
  bool progress() override;
  bool prepare_sleep() override { return true; }
  void woke() override {}

  // Whether the library has failed, and what it said.
  bool failed() const { return failed_; }
  const std::string& failure() const { return session_.failure(); }
  // Whether cancelled messages left memory with the library.
  bool lends() const { return lends_; }

 private:
  // A message under way. Its bytes go through `bounce` where they lie in several pieces or are to be folded.
  struct Flight {
    Message* message = nullptr;
    void* operation = nullptr;
    std::vector<std::byte> bounce;
    bool sends = false;
  };

  void post(Message& message, bool sends);
  void land(Flight& flight);

  module::Session& session_;
  std::vector<Flight> flights_;
  std::vector<std::vector<std::byte>> spare_;  // bounces to use again
  std::vector<std::vector<std::byte>> lost_;   // bounces that the library did not give back
  bool failed_ = false;
  bool lends_ = false;
};

}  // namespace regroup::transport
