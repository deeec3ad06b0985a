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
    const bool forgets = plant == Plant::forgets_promise && said.kind == AgreementMessage::Kind::propose;
    const bool lower = plant == Plant::lower_decision && said.kind == AgreementMessage::Kind::decide;
    if (forgets) agreement.promised_ = std::min(agreement.promised_, said.ballot);
    if (lower) agreement.bound_ = std::min(agreement.bound_, said.ballot);
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
      if (plant == Plant::half_is_enough && 2 * uint64_t{agreement.answered_.count()} >= agreement.size_) {
        if (agreement.lead_ == Lead::asking) agreement.lead_ = Lead::gathering;
        if (agreement.lead_ == Lead::proposing) agreement.decide(agreement.proposal_);
      }
      if (plant == Plant::late_contribution && agreement.lead_ == Lead::proposing && agreement.own_.has_value()) {
        agreement.proposal_ = agreement.fold();
      }
    }
  }
};

}  // namespace regroup::membership
