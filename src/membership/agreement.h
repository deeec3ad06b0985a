// SPDX-License-Identifier: Apache-2.0
// Agreement among the members of one epoch, without a coordinator that must live: all that get an answer get the same
// one, though members die, stop or are cut off while it is sought. Pure: messages, news of failures and impatience come
// in; messages and a decision go out. The simulator and the native backend run this very code.
//
// Single-decree consensus (Lamport, "The Part-Time Parliament", 1998; the leader's first phase is left out in ballot 0,
// which belongs to rank 0). The lowest member that is not known to have failed leads: it gathers what the members
// bring, folds it, proposes the result, and tells the decision when enough have accepted. When the leader fails, the
// next one asks what may have been accepted already and goes on from there: four messages deep when nothing fails.
//
// What is enough (Quorum::normal): more than half of all members; or all members that are not proven dead. Two such
// sets that belong to different ballots meet in a living member: either both are majorities, or one of them holds
// every member that lives. So a decision that any living member knows of is found again. A member is proven dead only
// by its own host's kernel (its process ended); who merely does not answer still counts, so that of two sides of a cut
// network at most one goes on.
//
// News of a death may overtake the last messages of the dead, among them proposals of a higher ballot that a majority,
// dead by now, stood behind: whoever accepted one after the living alone had decided would unmake the decision. So who
// is known to be dead is not heard any more, and a proposal says whom its proposer counts as dead: all that accept it
// know, before a quorum is made of them. Who learns of a death later asks again, in a higher ballot. And until a member
// has called, and knows which quorum was asked for, only more than half of all members are enough for it.
//
// A decision of a lower ballot than a member is bound to may be known to the dead alone, and is not heard. But one that
// has begun to lead, and has not proposed, is bound to nobody: it takes a decision over into its own ballot and tells
// it in that. Otherwise news of a leader's death that overtakes its decision would leave behind whoever acts on it,
// for those that know the decision go on and are soon not there to be asked. Nor does it matter to whom a member is
// bound that has accepted the very same in the decision's ballot or above: all to whom it promised more know of it.
//
// What only the dead knew is not binding: members that have died may have had another answer than those that live.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "membership/rank_set.h"
#include "regroup/survival.h"

namespace regroup::membership {

// A higher ballot overrules a lower one; ballot b belongs to rank b mod size.
using Ballot = uint64_t;

// What a member brings.
struct Contribution {
  uint64_t purpose = 0;   // members that agree on different things are told so
  uint64_t flags = 0;     // the bitwise and over all that come is the answer
  uint64_t progress = 0;  // the greatest is answered
  bool leaving = false;
  RankSet dead;         // proven
  RankSet unreachable;  // no connection: with whom it cannot be in a group
  bool operator==(const Contribution&) const = default;
};

struct Decision {
  uint64_t purpose = 0;
  bool mixed = false;  // purposes differed: nothing else counts
  uint64_t flags = 0;
  uint64_t progress = 0;
  RankSet came;       // whose contributions are in it
  RankSet leaving;    // of them
  RankSet failed;     // dead or cut off, as any of them knew
  RankSet survivors;  // those of `came` that stay and can all reach each other
  bool operator==(const Decision&) const = default;
};

struct AgreementMessage {
  enum class Kind : uint8_t {
    contribute = 1,  // to the leader
    prepare,         // a new leader: tell me what you have accepted, and promise to hear no lower ballot
    promise,
    propose,
    accept,
    decide,
    refuse,  // `ballot` is the higher one that the sender has promised
  };
  Kind kind = Kind::contribute;
  uint32_t instance = 0;  // counts the agreements of an epoch, from 1
  Ballot ballot = 0;
  std::optional<Contribution> contribution;  // contribute, promise
  Ballot accepted = 0;                       // promise, where there is a decision
  std::optional<Decision> decision;          // promise, propose, decide
  std::optional<RankSet> dead;               // propose: whom the proposer does not count
};

class Agreement {
 public:
  enum class Failure : uint8_t {
    suspected,    // does not answer, as far as somebody says
    unreachable,  // the connection is lost: it may live on the other side of a cut
    dead,         // its process has ended
  };
  using Outbox = std::vector<std::pair<Rank, AgreementMessage>>;

  // What members have failed so far is told by `failed` afterwards.
  Agreement(Rank rank, Rank size, uint32_t instance);

  // This member's own part; once, by the same rule on all members. The sets of failed members are filled in from what
  // `failed` told.
  void contribute(Contribution contribution, Quorum quorum);
  void heard(Rank from, const AgreementMessage& message);
  void failed(Rank member, Failure how);
  // Enough waited for those who have not come. The leader goes on without them; the second time the others take the
  // leader for failed, too.
  void impatient();

  const std::optional<Decision>& decision() const { return decided_; }
  // Whether no quorum can come about any more, whoever still answers. Where there is a decision, and those that know it
  // go on, the last that is still here may tell it so that it counts.
  bool hopeless() const;
  // Those that this member still waits for, as far as it knows: the leader knows who has not contributed, the others
  // know of the leader alone.
  std::vector<Rank> missing() const;
  // What there is to send, by receiver.
  Outbox take() { return std::exchange(outbox_, {}); }
  // The decision once more, for all: a member that goes may be the last that knows it.
  void repeat_decision();

 private:
  friend struct Tamper;  // of the simulation, which plants faults

  RankSet failed_members() const { return dead_ | unreachable_ | suspected_; }
  bool enough(const RankSet& members, const RankSet& dead) const;
  bool accepted_by_enough() const { return enough(answered_, counted_dead_); }
  Rank owner(Ballot ballot) const { return static_cast<Rank>(ballot % size_); }
  void look_for_leader();
  void tell_leader(Rank leader);
  void lead();
  void count_again();
  void gather();
  void propose(const Decision& decision);
  void decide(const Decision& decision);
  Decision fold() const;
  void send(Rank to, AgreementMessage message);
  void send_all(const AgreementMessage& message);
  AgreementMessage message(AgreementMessage::Kind kind, Ballot ballot) const;

  const Rank rank_, size_;
  const uint32_t instance_;
  Quorum quorum_ = Quorum::majority;
  RankSet dead_, unreachable_, suspected_;
  int impatience_ = 0;
  std::optional<Contribution> own_;
  Rank told_ = 0;  // which leader has `own_`

  // --- as one of those who accept
  Ballot promised_ = 0;
  Ballot bound_ = 0;  // the highest in which another leader may count on this member, or in which it has proposed
  Ballot accepted_ballot_ = 0;
  std::optional<Decision> accepted_;
  std::optional<Decision> decided_;
  bool passed_over_ = false;  // it was told a decision on which it may not count

  // --- as a leader
  enum class Lead : uint8_t { no, asking, gathering, proposing };
  Lead lead_ = Lead::no;
  Ballot ballot_ = 0;
  RankSet answered_;      // promised, or accepted, in this ballot
  RankSet counted_dead_;  // when it proposed
  std::vector<std::optional<Contribution>> contributions_;
  Ballot found_ballot_ = 0;
  std::optional<Decision> found_;  // accepted by somebody in the highest ballot below
  Decision proposal_;

  Outbox outbox_;
};

}  // namespace regroup::membership
