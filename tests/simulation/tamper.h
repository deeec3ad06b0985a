// SPDX-License-Identifier: Apache-2.0
// Reaches into a council to plant faults of the protocol (members.h): what a member with that fault would do at the
// same place. The library knows only the name.
#pragma once

#include <algorithm>

#include "membership/council.h"
#include "simulation/members.h"

namespace regroup::membership {

struct Tamper {
  using Plant = simulation::Plant;

  // Before `said` is heard.
  static void before(Council& council, Plant plant, AgreementMessage& said) {
    const auto found = council.agreements_.find(said.instance);
    if (found == council.agreements_.end()) return;
    Agreement& agreement = found->second;
    if (plant == Plant::forgets_promise && said.kind == AgreementMessage::Kind::propose)
      agreement.promised_ = std::min(agreement.promised_, said.ballot);
    if (plant == Plant::forgets_acceptance && said.kind == AgreementMessage::Kind::promise) said.decision.reset();
  }

  // After anything that happened to it.
  static void after(Council& council, Plant plant) {
    for (auto& [instance, agreement] : council.agreements_) {
      using Lead = Agreement::Lead;
      if (plant == Plant::does_not_ask && agreement.lead_ == Lead::asking && agreement.own_.has_value()) {
        agreement.found_.reset();
        agreement.lead_ = Lead::gathering;
        agreement.gather();
      }
      if (plant == Plant::half_is_enough) half_is_enough(agreement);
      if (plant == Plant::late_contribution && agreement.lead_ == Lead::proposing && agreement.own_.has_value()) {
        agreement.proposal_ = agreement.fold();
      }
    }
  }

 private:
  static void half_is_enough(Agreement& agreement) {
    using Lead = Agreement::Lead;
    const auto half = [&](const RankSet& set) { return 2 * uint64_t{set.count()} >= agreement.size_; };
    if (agreement.lead_ == Lead::asking && half(agreement.answered_)) {
      agreement.lead_ = Lead::gathering;
      agreement.gather();
    }
    if (agreement.lead_ == Lead::gathering && agreement.own_.has_value() && !agreement.found_.has_value()) {
      RankSet came(agreement.size_);
      for (Rank member = 0; member < agreement.size_; ++member) {
        if (agreement.contributions_[member].has_value() && !agreement.dead_.contains(member)) came.add(member);
      }
      if (half(came) && (came | agreement.failed_members()) == RankSet::all(agreement.size_))
        agreement.propose(agreement.fold());
    }
    if (agreement.lead_ == Lead::proposing && half(agreement.answered_)) agreement.decide(agreement.proposal_);
  }
};

}  // namespace regroup::membership
