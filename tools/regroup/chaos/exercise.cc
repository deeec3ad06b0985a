// SPDX-License-Identifier: Apache-2.0
#include "chaos/exercise.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "chaos/board.h"
#include "conformance/attempt.h"

namespace regroup::tool::chaos {

namespace {

constexpr auto kCanary = std::byte{0xd7};

// Both sides of an operation whose parts are uneven (at most double), and the gaps between the parts of lists.
uint64_t room_for(uint64_t most_bytes) { return 4 * most_bytes + (256 << 10); }

std::string first_stain(std::span<const std::byte> memory, const char* kind) {
  const auto at = std::find_if(memory.begin(), memory.end(), [](std::byte b) { return b != kCanary; });
  if (at == memory.end()) return {};
  return std::string(kind) + " memory was written after the error, at byte " + std::to_string(at - memory.begin());
}

Status call(ProcessGroup& group, conformance::Call how, const Operation& operation) {
  if (how == conformance::Call::start) return group.start(operation).wait();
  if (how != conformance::Call::prepared) return group.run(operation);
  Result<Prepared> prepared = group.prepare(operation);
  return prepared.ok() ? prepared->run() : prepared.status();
}

}  // namespace

Exercise::Exercise(uint64_t most_bytes)
    : ordinary_bytes_(room_for(most_bytes)),
      allocation_(allocate(room_for(most_bytes)).value_or_throw()),
      ordinary_(ordinary_bytes_.data(), ordinary_bytes_.size()),
      allocated_(allocation_.data(), ordinary_bytes_.size()) {}

Exercise::Outcome Exercise::run(ProcessGroup& group, const conformance::Case& c, uint64_t values) {
  ordinary_.reset();
  allocated_.reset();
  conformance::Attempt attempt(c, group.rank(), ordinary_, allocated_);
  attempt.prepare(values);
  CallOptions options;
  options.reproducible = c.reproducible;
  const Operation operation = attempt.operation(options);
  Outcome outcome;
  outcome.called_at = now_ns();
  outcome.status = call(group, c.call, operation);
  outcome.ended_at = now_ns();
  outcome.wrong = outcome.status.ok() ? attempt.verify() : attempt.check_inputs();
  if (outcome.wrong.empty() && (!ordinary_.intact() || !allocated_.intact()))
    outcome.wrong = "memory around a buffer was written";
  if (!outcome.wrong.empty()) outcome.wrong = std::string(name(c.collective)) + ": " + outcome.wrong;
  if (outcome.status.ok()) outcome.fingerprint = attempt.fingerprint();
  return outcome;
}

void Exercise::paint() {
  std::fill(ordinary_bytes_.begin(), ordinary_bytes_.end(), kCanary);
  std::memset(allocation_.data(), static_cast<int>(kCanary), ordinary_bytes_.size());
}

std::string Exercise::fresh_paint() const {
  const std::string stain = first_stain(ordinary_bytes_, "ordinary");
  return stain.empty() ? first_stain({allocation_.data(), ordinary_bytes_.size()}, "mapped") : stain;
}

}  // namespace regroup::tool::chaos
