// SPDX-License-Identifier: Apache-2.0
#include "membership/council.h"

namespace regroup::membership {

Agreement& Council::at(uint32_t instance) {
  const auto found = agreements_.find(instance);
  if (found != agreements_.end()) return found->second;
  Agreement& made = agreements_.emplace(instance, Agreement(rank_, size_, instance)).first->second;
  for (const Rank member : unreachable_.ranks()) made.failed(member, Agreement::Failure::unreachable);
  for (const Rank member : dead_.ranks()) made.failed(member, Agreement::Failure::dead);
  return made;
}

uint32_t Council::begin(Contribution contribution, Quorum quorum, const RankSet& suspects) {
  ++begun_;
  while (!agreements_.empty() && agreements_.begin()->first + kRemembered <= begun_)
    agreements_.erase(agreements_.begin());
  Agreement& agreement = at(begun_);
  for (const Rank member : suspects.ranks()) agreement.failed(member, Agreement::Failure::suspected);
  agreement.contribute(std::move(contribution), quorum);
  return begun_;
}

void Council::heard(Rank from, const AgreementMessage& message) {
  // Whoever is further ahead has gone on without this member, and whoever is further behind without the others.
  if (message.instance == 0 || message.instance > begun_ + 1 || message.instance + kRemembered <= begun_) return;
  at(message.instance).heard(from, message);
}

void Council::failed(Rank member, Agreement::Failure how) {
  (how == Agreement::Failure::dead ? dead_ : unreachable_).add(member);
  for (auto& [instance, agreement] : agreements_) agreement.failed(member, how);
}

void Council::farewell() {
  for (auto& [instance, agreement] : agreements_) agreement.repeat_decision();
}

Agreement::Outbox Council::take() {
  Agreement::Outbox all;
  for (auto& [instance, agreement] : agreements_) {
    for (auto& message : agreement.take()) all.push_back(std::move(message));
  }
  return all;
}

}  // namespace regroup::membership
