// SPDX-License-Identifier: Apache-2.0
#include "membership/agreement.h"

#include <algorithm>

namespace regroup::membership {

using Kind = AgreementMessage::Kind;

Agreement::Agreement(Rank rank, Rank size, uint32_t instance)
    : rank_(rank),
      size_(size),
      instance_(instance),
      dead_(size),
      unreachable_(size),
      suspected_(size),
      told_(rank),
      answered_(size),
      contributions_(size) {
  // Ballot 0 has nothing below it that could have been accepted: its owner need not ask.
  if (rank == owner(0)) lead_ = Lead::gathering;
}

bool Agreement::enough(const RankSet& members, const RankSet& dead) const {
  if (quorum_ == Quorum::survivors) return members.includes(RankSet::all(size_) - failed_members());
  if (2 * uint64_t{members.count()} > size_) return true;
  return quorum_ == Quorum::normal && members.includes(RankSet::all(size_) - dead);
}

bool Agreement::hopeless() const {
  const RankSet here = RankSet::all(size_) - (dead_ | unreachable_);
  if (decided_.has_value() || enough(here, dead_)) return false;
  return !passed_over_ || here.count() <= 1;
}

std::vector<Rank> Agreement::missing() const {
  if (decided_.has_value()) return {};
  RankSet waited(size_);
  if (lead_ == Lead::no) {
    waited.add(owner(promised_));
  } else if (lead_ == Lead::gathering) {
    for (Rank member = 0; member < size_; ++member) {
      if (!contributions_[member].has_value()) waited.add(member);
    }
  } else {
    waited = RankSet::all(size_) - answered_;
  }
  return (waited - dead_).ranks();
}

AgreementMessage Agreement::message(Kind kind, Ballot ballot) const {
  AgreementMessage message;
  message.kind = kind;
  message.instance = instance_;
  message.ballot = ballot;
  return message;
}

void Agreement::send(Rank to, AgreementMessage message) { outbox_.emplace_back(to, std::move(message)); }

void Agreement::send_all(const AgreementMessage& message) {
  for (Rank member = 0; member < size_; ++member) {
    if (member != rank_ && !dead_.contains(member)) send(member, message);
  }
}

void Agreement::contribute(Contribution contribution, Quorum quorum) {
  quorum_ = quorum;
  contribution.dead = dead_;
  contribution.unreachable = unreachable_;
  own_ = std::move(contribution);
  contributions_[rank_] = own_;
  told_ = rank_;
  look_for_leader();
  count_again();
}

void Agreement::failed(Rank member, Failure how) {
  RankSet& set = how == Failure::dead ? dead_ : how == Failure::unreachable ? unreachable_ : suspected_;
  if (member == rank_ || set.contains(member)) return;
  set.add(member);
  if (own_.has_value() && how != Failure::suspected) {
    // The leader may not have seen it.
    own_->dead = dead_;
    own_->unreachable = unreachable_;
    contributions_[rank_] = own_;
    told_ = rank_;
  }
  look_for_leader();
  count_again();
}

// Fewer may be enough now.
void Agreement::count_again() {
  if (lead_ == Lead::asking && enough(answered_, dead_)) lead_ = Lead::gathering;
  if (lead_ == Lead::proposing) {
    if (accepted_by_enough()) return decide(proposal_);
    // Only together with whom those that accept do not know to be dead: they have to be told first.
    if (counted_dead_ != dead_ && enough(RankSet::all(size_) - dead_, dead_) &&
        2 * uint64_t{(RankSet::all(size_) - dead_).count()} <= size_)
      return lead();
  }
  gather();
}

void Agreement::impatient() {
  ++impatience_;
  if (decided_.has_value()) return;
  if (lead_ != Lead::no) return gather();
  if (impatience_ < 2) return;
  Rank leader = owner(promised_);
  if (failed_members().contains(leader)) leader = (RankSet::all(size_) - failed_members()).first();
  failed(leader, Failure::suspected);
}

// Follows the owner of the highest ballot it knows; where that one has failed, the lowest member that has not leads.
void Agreement::look_for_leader() {
  const RankSet failed = failed_members();
  const Rank leader = owner(promised_);
  if (leader == rank_) return;
  if (!failed.contains(leader)) return tell_leader(leader);
  const Rank next = (RankSet::all(size_) - failed).first();
  if (next == rank_) return lead();
  // It may follow another one, and not know of this ballot.
  tell_leader(next);
}

void Agreement::tell_leader(Rank leader) {
  if (!own_.has_value() || told_ == leader || decided_.has_value()) return;
  AgreementMessage mine = message(Kind::contribute, promised_);
  mine.contribution = own_;
  send(leader, std::move(mine));
  told_ = leader;
}

void Agreement::lead() {
  ballot_ = promised_ + 1;
  while (owner(ballot_) != rank_) ++ballot_;
  promised_ = ballot_;
  lead_ = Lead::asking;
  found_ = accepted_;
  found_ballot_ = accepted_ballot_;
  answered_ = RankSet(size_);
  answered_.add(rank_);
  send_all(message(Kind::prepare, ballot_));
  if (!enough(answered_, dead_)) return;
  lead_ = Lead::gathering;
  gather();
}

// Proposes once it is known what: what may have been chosen already, or what all have brought that are waited for.
void Agreement::gather() {
  if (lead_ != Lead::gathering) return;
  if (found_.has_value()) return propose(*found_);
  if (!own_.has_value()) return;
  RankSet came(size_);
  for (Rank member = 0; member < size_; ++member) {
    if (contributions_[member].has_value() && !dead_.contains(member)) came.add(member);
  }
  const RankSet late = RankSet::all(size_) - came - failed_members();
  if (impatience_ == 0 && !late.empty()) return;
  if (impatience_ > 0) suspected_ |= late;
  if (enough(came, dead_)) propose(fold());
}

Decision Agreement::fold() const {
  Decision decision;
  decision.purpose = own_->purpose;
  decision.flags = ~uint64_t{0};
  decision.came = decision.leaving = decision.survivors = RankSet(size_);
  decision.failed = dead_ | unreachable_;
  for (Rank member = 0; member < size_; ++member) {
    if (!contributions_[member].has_value() || dead_.contains(member)) continue;
    const Contribution& part = *contributions_[member];
    decision.mixed |= part.purpose != decision.purpose;
    decision.flags &= part.flags;
    decision.progress = std::max(decision.progress, part.progress);
    decision.came.add(member);
    if (part.leaving) decision.leaving.add(member);
    decision.failed |= part.dead | part.unreachable;
  }
  // Of members that cannot reach each other not all can stay: the one with the most broken connections goes first.
  RankSet stay = decision.came - decision.leaving;
  const auto apart = [&](Rank a, Rank b) {
    return contributions_[a]->unreachable.contains(b) || contributions_[b]->unreachable.contains(a);
  };
  while (true) {
    const std::vector<Rank> members = stay.ranks();
    Rank worst = size_;
    size_t most = 0;
    for (const Rank a : members) {
      const auto broken = static_cast<size_t>(
          std::count_if(members.begin(), members.end(), [&](Rank b) { return a != b && apart(a, b); }));
      if (broken > 0 && broken >= most) {
        most = broken;
        worst = a;
      }
    }
    if (worst == size_) break;
    stay.remove(worst);
  }
  decision.survivors = stay;
  return decision;
}

void Agreement::propose(const Decision& decision) {
  lead_ = Lead::proposing;
  bound_ = ballot_;
  proposal_ = decision;
  accepted_ = decision;
  accepted_ballot_ = ballot_;
  answered_ = RankSet(size_);
  answered_.add(rank_);
  counted_dead_ = dead_;
  AgreementMessage proposal = message(Kind::propose, ballot_);
  proposal.decision = decision;
  proposal.dead = dead_;
  send_all(proposal);
  if (accepted_by_enough()) decide(proposal_);
}

void Agreement::decide(const Decision& decision) {
  lead_ = Lead::no;
  decided_ = decision;
  repeat_decision();
}

void Agreement::repeat_decision() {
  if (!decided_.has_value()) return;
  AgreementMessage told = message(Kind::decide, accepted_ballot_);
  told.decision = decided_;
  send_all(told);
}

void Agreement::heard(Rank from, const AgreementMessage& said) {
  if (from >= size_ || from == rank_ || said.instance != instance_ || dead_.contains(from)) return;
  if (said.dead.has_value()) {
    for (const Rank member : said.dead->ranks()) failed(member, Failure::dead);
  }
  if (said.contribution.has_value()) {
    contributions_[from] = said.contribution;
    suspected_.remove(from);
    // What a member's own kernel says is a fact for all.
    for (const Rank member : said.contribution->dead.ranks()) failed(member, Failure::dead);
  }
  const bool of_owner = owner(said.ballot) == from;
  switch (said.kind) {
    case Kind::contribute:
      if (decided_.has_value()) {
        AgreementMessage told = message(Kind::decide, accepted_ballot_);
        told.decision = decided_;
        send(from, std::move(told));
      }
      // Who has promised to hear a higher ballot, of a leader that has failed, needs one that is higher still.
      if (said.ballot > promised_) {
        promised_ = said.ballot;
        lead_ = Lead::no;
        look_for_leader();
      }
      return gather();
    case Kind::prepare: {
      if (!of_owner) return;
      if (said.ballot < promised_) return send(from, message(Kind::refuse, promised_));
      promised_ = bound_ = said.ballot;
      lead_ = Lead::no;
      AgreementMessage promise = message(Kind::promise, said.ballot);
      promise.contribution = own_;
      promise.accepted = accepted_ballot_;
      promise.decision = accepted_;
      told_ = from;
      return send(from, std::move(promise));
    }
    case Kind::promise:
      if ((lead_ != Lead::asking && lead_ != Lead::gathering) || said.ballot != ballot_) return;
      answered_.add(from);
      if (said.decision.has_value() && (!found_.has_value() || said.accepted > found_ballot_)) {
        found_ = said.decision;
        found_ballot_ = said.accepted;
      }
      if (lead_ == Lead::asking && enough(answered_, dead_)) lead_ = Lead::gathering;
      return gather();
    case Kind::propose:
      if (!of_owner || !said.decision.has_value()) return;
      if (said.ballot < promised_) return send(from, message(Kind::refuse, promised_));
      promised_ = bound_ = said.ballot;
      lead_ = Lead::no;
      accepted_ballot_ = said.ballot;
      accepted_ = said.decision;
      send(from, message(Kind::accept, said.ballot));
      return look_for_leader();
    case Kind::accept:
      if (lead_ != Lead::proposing || said.ballot != ballot_) return;
      answered_.add(from);
      if (accepted_by_enough()) decide(proposal_);
      return;
    case Kind::decide:
      if (!said.decision.has_value() || decided_.has_value()) return;
      if (said.ballot < bound_ && (said.ballot > accepted_ballot_ || accepted_ != said.decision)) {
        passed_over_ = true;
        return;
      }
      accepted_ = said.decision;
      if (said.ballot < promised_ && lead_ != Lead::no) {
        // Some may have promised to hear nothing below this ballot.
        bound_ = accepted_ballot_ = ballot_;
        return decide(*said.decision);
      }
      promised_ = std::max(promised_, said.ballot);
      accepted_ballot_ = said.ballot;
      decided_ = said.decision;
      lead_ = Lead::no;
      return;
    case Kind::refuse:
      if (said.ballot <= promised_) return;
      promised_ = said.ballot;
      lead_ = Lead::no;
      return look_for_leader();
  }
}

}  // namespace regroup::membership
