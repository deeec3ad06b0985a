// SPDX-License-Identifier: Apache-2.0
// Two transports for one group: shared memory between the ranks of a host, another between hosts.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "transport/transport.h"

namespace regroup::transport {

class MixedTransport final : public Transport {
 public:
  // `local[r]`: rank r is reached by `inside`. Both outlive this.
  MixedTransport(Transport& inside, Transport& between, std::vector<bool> local)
      : inside_(inside), between_(between), local_(std::move(local)) {}

  std::string_view name() const override { return "mixed"; }
  bool one_sided(Rank peer) const override { return local_[peer] && inside_.one_sided(peer); }
  void begin(const Opening& opening) override {
    between_.begin(opening);
    inside_.begin(opening);
  }
  Gathering gathered(Conflict* conflict) override {
    const Gathering remote = between_.gathered(conflict);
    return remote == Gathering::complete ? inside_.gathered(conflict) : remote;
  }
  void end() override {
    inside_.end();
    between_.end();
  }
  void withdraw() override {
    inside_.withdraw();
    between_.withdraw();
  }
  void begin_reading() override { inside_.begin_reading(); }
  void end_reading() override { inside_.end_reading(); }
  Located locate(Rank peer, uint16_t member, plan::Space space, uint32_t part, uint64_t offset,
                 uint64_t bytes) override {
    return inside_.locate(peer, member, space, part, offset, bytes);
  }
  bool read(Rank peer, uint64_t address, std::byte* to, uint64_t bytes) override {
    return inside_.read(peer, address, to, bytes);
  }
  bool counts(Rank peer) override { return inside_.counts(peer); }
  void notify(plan::Mark mark) override { inside_.notify(mark); }
  bool notified(Rank peer, plan::Mark mark) override { return inside_.notified(peer, mark); }
  std::byte* scratch(uint64_t bytes) override { return inside_.scratch(bytes); }
  void post_send(Message& message) override { of(message.peer).post_send(message); }
  void post_receive(Message& message) override { of(message.peer).post_receive(message); }
  void cancel(Message& message) override { of(message.peer).cancel(message); }
  Rank announced(uint32_t tag, std::span<const uint64_t> sequences) override {
    return std::min(inside_.announced(tag, sequences), between_.announced(tag, sequences));
  }
  bool progress() override {
    const bool inside = inside_.progress();
    return between_.progress() || inside;
  }
  bool prepare_sleep() override {
    const bool inside = inside_.prepare_sleep();
    return between_.prepare_sleep() && inside;
  }
  void woke() override {
    inside_.woke();
    between_.woke();
  }

 private:
  Transport& of(Rank peer) { return local_[peer] ? inside_ : between_; }

  Transport& inside_;
  Transport& between_;
  std::vector<bool> local_;
};

}  // namespace regroup::transport
