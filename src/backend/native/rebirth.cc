// SPDX-License-Identifier: Apache-2.0
// What members agree on, and how survivors meet anew: over the control channel, which outlives the failure of the
// group.
//
// shrink: the members agree who is left; those meet as they would through a store, but through the control channel of
// the life that ends; then they agree whether all have met. Where not (another one died meanwhile), they begin again.
// The life that ends stays until all are over.
#include <algorithm>

#include "backend/native/assembly.h"
#include "backend/native/payload.h"
#include "backend/native/text.h"
#include "membership/agreement_message.h"

namespace regroup::backend::native {

using membership::Agreement;
using membership::Contribution;
using membership::Decision;
using membership::Patience;
using membership::RankSet;
using membership::Rebirth;

namespace {

// Texts for the next life: of more epochs ahead, or more stages than a meeting has, is none of ours.
constexpr uint64_t kEpochsAhead = 64;
constexpr uint32_t kStages = 4;
// The most that one meeting of survivors may take before they begin again.
constexpr auto kMeeting = std::chrono::seconds(5);
// How often whoever waits looks up, where nobody wakes it.
constexpr auto kLookUp = std::chrono::milliseconds(100);

}  // namespace

// --- the channel's side

void NativeBackend::send_agreement_locked() {
  for (const auto& [to, message] : assembly_->council.take()) {
    if (control_ != nullptr) control_->send(to, net::ControlKind::agreement, membership::encode(message));
  }
}

void NativeBackend::heard_agreement(Rank from, std::span<const std::byte> payload) {
  const auto message = membership::decode(payload, facts_.size);
  if (!message.has_value()) return;
  // The others may have gone on without this member, which perhaps never asked. Even where the decision is one that
  // this member may not count on any more (it has promised to hear a higher ballot), giving up is safe.
  bool left_behind = false;
  {
    std::lock_guard lock(assembly_->mutex);
    if (!assembly_->open) return;
    membership::Council& council = assembly_->council;
    council.heard(from, *message);
    send_agreement_locked();
    if (message->kind == membership::AgreementMessage::Kind::decide && message->decision.has_value()) {
      left_behind = membership::leaves_behind(*message->decision, facts_.rank, facts_.size);
    }
    assembly_->left_behind |= left_behind;
    assembly_->changed.notify_all();
  }
  if (left_behind) break_group(stale(), false);
}

void NativeBackend::heard_rejoin(Rank from, std::span<const std::byte> payload) {
  uint64_t epoch = 0;
  uint32_t stage = 0;
  if (!take(&payload, &epoch) || !take(&payload, &stage)) return;
  if (epoch <= facts_.epoch || epoch > facts_.epoch + kEpochsAhead || stage == 0 || stage > kStages) return;
  std::lock_guard lock(assembly_->mutex);
  assembly_->texts[{epoch, stage, from}] = {reinterpret_cast<const char*>(payload.data()), payload.size()};
  assembly_->changed.notify_all();
}

void NativeBackend::council_failed(Rank member, Agreement::Failure how) {
  std::lock_guard lock(assembly_->mutex);
  if (!assembly_->open) return;
  assembly_->council.failed(member, how);
  send_agreement_locked();
  assembly_->changed.notify_all();
}

void NativeBackend::dismiss_assembly() {
  std::lock_guard lock(assembly_->mutex);
  if (!assembly_->open) return;
  assembly_->council.farewell();
  send_agreement_locked();
  assembly_->open = false;
  assembly_->changed.notify_all();
}

// --- the callers' side

Status NativeBackend::stale() const {
  return Status(StatusCode::stale_epoch,
                "rank " + std::to_string(facts_.rank) + " was left behind: the others have gone on without it",
                {facts_.rank}, facts_.epoch);
}

Status NativeBackend::mismatch_of_purposes() const {
  return Status(StatusCode::mismatch, "members agree on different things: some called agree, others shrink or leave",
                {}, facts_.epoch);
}

// Whom a failure blames is not waited for; what it brings in time still counts.
RankSet NativeBackend::suspects() const {
  RankSet blamed(facts_.size);
  std::lock_guard lock(mutex_);
  if (broken_.code() != StatusCode::timeout && broken_.code() != StatusCode::peer_lost) return blamed;
  for (const Rank rank : broken_.ranks()) {
    if (rank < facts_.size && rank != facts_.rank) blamed.add(rank);
  }
  return blamed;
}

Result<Decision> NativeBackend::decide(Contribution mine, Quorum quorum, RankSet suspects, base::Time deadline,
                                       Patience patience) {
  const uint64_t purpose = mine.purpose;
  const auto late = [&](StatusCode code, std::vector<Rank> ranks) {
    std::string text = code == StatusCode::no_quorum ? "too few of " + std::to_string(facts_.size) + " members are left"
                                                     : "no agreement was reached in time";
    if (!ranks.empty()) text += "; missing: " + list(ranks);
    return Status(code, std::move(text), std::move(ranks), facts_.epoch);
  };
  const base::Turns::Turn turn(assembly_->turns, deadline);
  if (!turn.mine()) return late(StatusCode::timeout, {});
  std::unique_lock lock(assembly_->mutex);
  membership::Council& council = assembly_->council;
  if (!assembly_->open) return last_failure();
  const uint32_t instance = council.begin(std::move(mine), quorum, suspects);
  send_agreement_locked();
  while (true) {
    if (council.decision(instance).has_value()) break;
    if (!assembly_->open) return Status(StatusCode::aborted, "the group was left", {}, facts_.epoch);
    if (assembly_->left_behind) return stale();
    const Agreement& agreement = council.latest();
    if (agreement.hopeless()) return late(StatusCode::no_quorum, council.failed_members().ranks());
    const base::Time now = base::Clock::now();
    switch (patience.at(now)) {
      case Patience::Now::over:
        return late(patience.gives_up() ? StatusCode::no_quorum : StatusCode::timeout, agreement.missing());
      case Patience::Now::impatient:
        council.impatient();
        send_agreement_locked();
        break;
      case Patience::Now::wait:
        assembly_->changed.wait_until(lock, std::min(patience.next(), now + kLookUp));
        break;
    }
  }
  const Decision decision = *council.decision(instance);
  if (!membership::answers(decision, purpose)) return mismatch_of_purposes();
  return decision;
}

// Waits for all that nobody blames for a failure, and gives up on none before the deadline.
Result<Decision> NativeBackend::decide_by_all(Contribution mine, std::chrono::nanoseconds timeout) {
  const base::Time deadline = base::deadline_after(timeout);
  return decide(std::move(mine), Quorum::normal, suspects(), deadline, Patience::endless(deadline));
}

Result<Agreed> NativeBackend::agree(uint64_t value, std::chrono::nanoseconds timeout) {
  if (inherited()) return inherited_status();
  if (Status failed = last_failure(); failed.code() == StatusCode::stale_epoch) return failed;
  Contribution mine;
  mine.purpose = membership::kAgree;
  mine.flags = value;
  auto decision = decide_by_all(std::move(mine), timeout);
  if (!decision.ok()) {
    // The others may have their answer: this member must not go on as if it had it.
    if (decision.status().code() == StatusCode::timeout) break_group(decision.status(), true);
    return decision.status();
  }
  return Agreed{decision->flags, decision->failed.ranks()};
}

Result<Agreed> NativeBackend::agree_outcome(bool ended_well, std::chrono::nanoseconds timeout) {
  if (inherited()) return inherited_status();
  if (Status failed = last_failure(); failed.code() == StatusCode::stale_epoch) return failed;
  Contribution mine;
  mine.purpose = membership::kOutcome;
  mine.flags = ended_well ? 1 : 0;
  auto decision = decide_by_all(std::move(mine), timeout);
  if (decision.ok()) return Agreed{decision->flags, decision->failed.ranks()};
  // What the others hold from now on may differ from what this member holds: it must not be among them.
  const Status fenced(StatusCode::timeout,
                      "rank " + std::to_string(facts_.rank) +
                          " could not learn whether the operation ended well for all, holds what it had, and has left "
                          "the group: " +
                          decision.status().message(),
                      decision.status().ranks(), facts_.epoch, finished_.load());
  break_group(stale(), false);
  end(fenced, false);
  return fenced;
}

Status NativeBackend::leave(std::chrono::nanoseconds timeout) {
  if (inherited()) return inherited_status();
  Status outcome = last_failure();
  if (outcome.code() != StatusCode::stale_epoch) {
    Contribution mine;
    mine.purpose = membership::kShrink;
    mine.flags = ~uint64_t{0};
    mine.leaving = true;
    outcome = decide_by_all(std::move(mine), timeout).status();
  }
  end(Status(StatusCode::aborted, "rank " + std::to_string(facts_.rank) + " has left the group", {facts_.rank},
             facts_.epoch),
      false);
  return outcome;
}

// The members of the next life meet through the control channel of this one.
Result<std::shared_ptr<Backend>> NativeBackend::meet_survivors(const std::vector<Rank>& survivors,
                                                               uint64_t previous_epoch, base::Time deadline) {
  const auto lost = [this, &survivors]() -> Status {
    for (const Rank rank : survivors) {
      if (!assembly_->council.failed_members().contains(rank)) continue;
      return Status(StatusCode::peer_lost, "rank " + std::to_string(rank) + " was lost while the survivors met", {rank},
                    facts_.epoch);
    }
    return assembly_->open ? Status() : Status(StatusCode::aborted, "the group was left", {}, facts_.epoch);
  };
  const uint64_t epoch = previous_epoch + 1;
  uint32_t stage = 0;
  const Exchange exchange = [&](const std::string& mine, base::Time until) -> Result<std::vector<std::string>> {
    ++stage;
    std::vector<std::byte> payload;
    put(&payload, epoch);
    put(&payload, stage);
    for (const char c : mine) payload.push_back(static_cast<std::byte>(c));
    for (const Rank rank : survivors) {
      if (rank != facts_.rank) control_->send(rank, net::ControlKind::rejoin, payload);
    }
    std::vector<std::string> texts(survivors.size());
    std::unique_lock lock(assembly_->mutex);
    for (size_t i = 0; i < survivors.size();) {
      if (survivors[i] == facts_.rank) {
        texts[i++] = mine;
        continue;
      }
      const auto came = assembly_->texts.find({epoch, stage, survivors[i]});
      if (came != assembly_->texts.end()) {
        texts[i++] = came->second;
        continue;
      }
      if (Status status = lost(); !status.ok()) return status;
      if (base::Clock::now() >= until) {
        return Status(StatusCode::timeout, "rank " + std::to_string(survivors[i]) + " did not meet the other survivors",
                      {survivors[i]}, facts_.epoch);
      }
      assembly_->changed.wait_until(lock, until);
    }
    return texts;
  };
  NativeOptions options = options_;
  options.rank = static_cast<Rank>(std::find(survivors.begin(), survivors.end(), facts_.rank) - survivors.begin());
  options.size = static_cast<Rank>(survivors.size());
  options.previous_epoch = previous_epoch;
  options.timeout = deadline - base::Clock::now();
  options.interrupted = [&] {
    std::lock_guard lock(assembly_->mutex);
    return lost();
  };
  return join(options, exchange);
}

Result<Reborn> NativeBackend::shrink(Quorum quorum, std::chrono::nanoseconds timeout) {
  if (inherited()) return inherited_status();
  const base::Time began = base::Clock::now();
  const base::Time deadline = base::deadline_after(timeout, began);
  if (Status failed = last_failure(); failed.code() == StatusCode::stale_epoch) return failed;
  // Nothing may be under way any more; the others come here by themselves.
  break_group(Status(StatusCode::aborted, "the group is being shrunk", {}, facts_.epoch), false);
  Rebirth rebirth(facts_.rank, facts_.size, facts_.epoch);
  Result<std::shared_ptr<Backend>> met = stale();
  while (true) {
    switch (rebirth.step()) {
      case Rebirth::Step::agree: {
        uint64_t progress = 0;
        {
          std::lock_guard lock(mutex_);
          progress = issued_;
        }
        auto decision = decide(rebirth.contribution(progress), quorum, rebirth.suspects(suspects()), deadline,
                               Patience::half(base::Clock::now(), deadline));
        if (!decision.ok()) return decision.status();
        rebirth.decided(*decision);
        if (rebirth.step() == Rebirth::Step::agree && base::Clock::now() >= deadline) {
          return met.ok() ? Status(StatusCode::timeout, "the survivors did not all meet in time", {}, facts_.epoch)
                          : met.status();
        }
        break;
      }
      case Rebirth::Step::meet:
        met = meet_survivors(rebirth.survivors().ranks(), rebirth.next_epoch() - 1,
                             std::min(deadline, base::deadline_after(kMeeting)));
        rebirth.met(met.ok());
        break;
      case Rebirth::Step::done:
        return Reborn{std::move(met).value(), rebirth.survivors().ranks()};
      case Rebirth::Step::left_behind:
        break_group(stale(), false);
        return stale();
      case Rebirth::Step::mismatch:
        return mismatch_of_purposes();
    }
  }
}

}  // namespace regroup::backend::native
