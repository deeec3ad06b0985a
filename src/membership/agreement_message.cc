// SPDX-License-Identifier: Apache-2.0
#include "membership/agreement_message.h"

#include <bit>
#include <cstring>

namespace regroup::membership {

static_assert(std::endian::native == std::endian::little, "words are sent as they are");

namespace {

enum Has : uint32_t { kContribution = 1, kDecision = 2, kDead = 4 };

struct Writer {
  std::vector<std::byte> bytes;

  void word(uint64_t value) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  void set(const RankSet& set) {
    for (const uint64_t bits : set.words()) word(bits);
  }
};

struct Reader {
  std::span<const std::byte> bytes;
  Rank size;
  bool good = true;

  uint64_t word() {
    uint64_t value = 0;
    good &= bytes.size() >= sizeof value;
    if (!good) return 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes = bytes.subspan(sizeof value);
    return value;
  }
  RankSet set() {
    std::vector<uint64_t> words((size + 63) / 64);
    for (uint64_t& bits : words) bits = word();
    RankSet set;
    good &= set.assign(size, std::move(words));
    return good ? set : RankSet(size);
  }
};

}  // namespace

std::vector<std::byte> encode(const AgreementMessage& message) {
  Writer out;
  const uint64_t has = (message.contribution.has_value() ? kContribution : 0u) |
                       (message.decision.has_value() ? kDecision : 0u) | (message.dead.has_value() ? kDead : 0u);
  out.word(static_cast<uint64_t>(message.kind) | has << 8 | uint64_t{message.instance} << 32);
  out.word(message.ballot);
  if (message.contribution.has_value()) {
    const Contribution& part = *message.contribution;
    out.word(part.purpose);
    out.word(part.flags);
    out.word(part.progress);
    out.word(part.leaving ? 1 : 0);
    out.set(part.dead);
    out.set(part.unreachable);
  }
  if (message.decision.has_value()) {
    const Decision& decision = *message.decision;
    out.word(message.accepted);
    out.word(decision.purpose);
    out.word(decision.mixed ? 1 : 0);
    out.word(decision.flags);
    out.word(decision.progress);
    out.set(decision.came);
    out.set(decision.leaving);
    out.set(decision.failed);
    out.set(decision.survivors);
  }
  if (message.dead.has_value()) out.set(*message.dead);
  return std::move(out.bytes);
}

std::optional<AgreementMessage> decode(std::span<const std::byte> bytes, Rank size) {
  Reader in{bytes, size};
  AgreementMessage message;
  const uint64_t head = in.word();
  const uint64_t kind = head & 0xff, has = head >> 8 & 0xffffff;
  if (kind < 1 || kind > static_cast<uint64_t>(AgreementMessage::Kind::refuse) ||
      has > (kContribution | kDecision | kDead))
    return std::nullopt;
  message.kind = static_cast<AgreementMessage::Kind>(kind);
  message.instance = static_cast<uint32_t>(head >> 32);
  message.ballot = in.word();
  if ((has & kContribution) != 0) {
    Contribution part;
    part.purpose = in.word();
    part.flags = in.word();
    part.progress = in.word();
    part.leaving = in.word() != 0;
    part.dead = in.set();
    part.unreachable = in.set();
    message.contribution = std::move(part);
  }
  if ((has & kDecision) != 0) {
    message.accepted = in.word();
    Decision decision;
    decision.purpose = in.word();
    decision.mixed = in.word() != 0;
    decision.flags = in.word();
    decision.progress = in.word();
    decision.came = in.set();
    decision.leaving = in.set();
    decision.failed = in.set();
    decision.survivors = in.set();
    message.decision = std::move(decision);
  }
  if ((has & kDead) != 0) message.dead = in.set();
  if (!in.good || !in.bytes.empty()) return std::nullopt;
  return message;
}

}  // namespace regroup::membership
