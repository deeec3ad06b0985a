// SPDX-License-Identifier: Apache-2.0
#include "simulation/members.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "membership/rebirth.h"
#include "simulation/tamper.h"

namespace regroup::simulation {
namespace {

using membership::Agreement;
using membership::AgreementMessage;
using membership::Council;
using membership::Decision;
using membership::Patience;
using membership::RankSet;
using membership::Rebirth;

constexpr uint64_t kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;
constexpr uint64_t kTimeout = 10 * kSecond;
constexpr uint64_t kMeeting = 5 * kSecond;
constexpr uint64_t kLiveness = kSecond;
constexpr uint32_t kStages = 2;  // of a meeting
constexpr int kGenerations = 5;

base::Time at(uint64_t time) { return base::Time(base::Duration(time)); }
uint64_t nanoseconds(base::Time time) { return static_cast<uint64_t>(time.time_since_epoch().count()); }

using Process = uint32_t;

// A group in one epoch: the same for all its members.
using LifeKey = std::pair<uint64_t, std::vector<Process>>;  // epoch, members by rank

struct Packet {
  enum class Kind : uint8_t { agreement, rejoin, moved_on, closed };
  Kind kind = Kind::agreement;
  AgreementMessage agreement;
  uint64_t epoch = 0;  // rejoin
  uint32_t stage = 0;
};

// One member's end of a group.
struct Life {
  Life(LifeKey of, Rank own)
      : key(std::move(of)),
        rank(own),
        council(rank, static_cast<Rank>(key.second.size())),
        moved_on(size()),
        lost(size()) {}
  Rank size() const { return static_cast<Rank>(key.second.size()); }

  LifeKey key;
  Rank rank;
  Council council;
  bool open = true;
  bool left_behind = false;
  RankSet moved_on;
  RankSet lost;  // connections that have ended
  std::map<std::pair<uint64_t, uint32_t>, RankSet> texts;

  // What it is at.
  enum class At : uint8_t { pausing, agreeing, meeting };
  At doing = At::pausing;
  uint64_t wakes = 0;  // when it looks again
  int agrees = 0;      // left before it shrinks
  bool leaves = false;
  std::optional<Rebirth> rebirth;
  std::optional<Patience> patience;
  RankSet blamed;
  uint64_t deadline = 0;  // of what it called
  uint32_t instance = 0;
  uint64_t purpose = 0;
  uint64_t value = 0;
  uint32_t stage = 0;
  uint64_t meets_until = 0;
};

struct Event {
  enum class Kind : uint8_t { wake, packet, news, kill, lost };
  uint64_t time = 0, order = 0;
  Kind kind = Kind::wake;
  Process to = 0, from = 0;
  LifeKey life;
  Packet packet;
};

struct Member {
  enum class End : uint8_t { running, finished, no_quorum, timeout, stale, left, mismatch };
  std::vector<std::unique_ptr<Life>> lives;
  std::vector<Event> early;  // packets for a life that it has not entered yet
  bool dead = false;
  uint64_t stopped_until = 0;
  uint64_t messages_left = ~uint64_t{0};  // until it dies
  End end = End::running;
  uint64_t ended = 0;
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

struct Cut {
  uint64_t from = 0, until = 0;
  bool lost = false;  // for good, and with the connection
  uint64_t noticed[2] = {};
};

class Members {
 public:
  Members(uint64_t seed, Trouble trouble, Plant plant);
  MembersResult run();

 private:
  uint64_t draw(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool chance(uint64_t percent) { return draw(100) < percent; }
  bool only_kills() const { return trouble_ <= Trouble::kills; }

  void plan_trouble();
  void violation(const std::string& what);
  void push(Event event, uint64_t time);
  void enter(Process process, LifeKey key);
  Life* life_of(Process process, const LifeKey& key);
  void send(Process from, Life& life, Rank to, Packet packet);
  bool spend_message(Process process);
  void flush(Process process, Life& life);
  void kill(Process process);
  void handle(const Event& event);
  void receive(Process process, Life& life, Rank from, Packet packet);
  void connection_ended(Process process, Life& life, Rank peer, Agreement::Failure how);
  void look(Process process, Life& life);
  bool look_once(Process process, Life& life);
  void call(Process process, Life& life);
  void begin(Process process, Life& life, membership::Contribution mine, const RankSet& suspects);
  bool answered(Process process, Life& life, const Decision& decision);
  bool next_step(Process process, Life& life);
  void begin_stage(Process process, Life& life);
  void end_life(Process process, Life& life, bool moves_on);
  bool end(Process process, Life& life, Member::End how);
  void check_decision(Process process, const Life& life, const Decision& decision);
  void check_successor(Process process, const Life& life, const LifeKey& next);
  void check_end();

  const Trouble trouble_;
  const Plant plant_;
  std::mt19937_64 random_;
  Quorum quorum_ = Quorum::normal;
  uint64_t now_ = 0, order_ = 0;
  uint64_t spread_ = 0;  // most of a usual delay
  uint64_t calls_within_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<Member> members_;
  std::map<std::pair<LifeKey, std::pair<Process, Process>>, uint64_t> arrives_;  // the last packet of a connection
  std::vector<Cut> cuts_;                                                        // by lower · n + higher
  uint64_t last_trouble_ = 0;

  struct Answer {
    Process by;
    Decision decision;
  };
  std::map<std::pair<LifeKey, uint32_t>, std::vector<Answer>> answers_;
  std::map<std::pair<LifeKey, uint32_t>, std::map<Process, uint64_t>> values_;  // what each brought
  std::map<std::pair<LifeKey, uint32_t>, uint64_t> messages_;
  std::map<LifeKey, std::vector<std::pair<Process, LifeKey>>> successors_;
  MembersResult result_;
};

Members::Members(uint64_t seed, Trouble trouble, Plant plant) : trouble_(trouble), plant_(plant), random_(seed) {
  const Rank size = chance(3) ? 16 : static_cast<Rank>(1 + draw(9));
  quorum_ = chance(25) ? Quorum::majority : Quorum::normal;
  if (only_kills()) quorum_ = Quorum::normal;
  const uint64_t spreads[] = {20 * kMicrosecond, kMillisecond, 20 * kMillisecond};
  spread_ = spreads[draw(3)];
  calls_within_ = chance(30) ? 1 : spread_ * (1 + draw(20));
  members_.resize(size);
  cuts_.resize(uint64_t{size} * size);
  result_.text = std::to_string(size) + " members, " + (quorum_ == Quorum::normal ? "normal" : "majority");
  LifeKey first{1, {}};
  for (Process process = 0; process < size; ++process) first.second.push_back(process);
  for (Process process = 0; process < size; ++process) enter(process, first);
  plan_trouble();
}

void Members::plan_trouble() {
  if (trouble_ == Trouble::none) return;
  const auto size = static_cast<Process>(members_.size());
  const uint64_t span = calls_within_ + 30 * spread_;
  const auto victim = [&] { return static_cast<Process>(chance(40) ? draw(std::min<Process>(size, 2)) : draw(size)); };
  for (uint64_t kills = draw(size + 1); kills > 0; --kills) {
    const Process who = victim();
    if (chance(60)) {
      members_[who].messages_left = 1 + draw(chance(50) ? 8 * size : 60 * size);
    } else {
      Event event;
      event.kind = Event::Kind::kill;
      event.to = who;
      push(event, draw(span * (1 + draw(4))));
    }
  }
  if (trouble_ >= Trouble::stops) {
    for (uint64_t stops = draw(3); stops > 0; --stops) {
      // Stopped from the first message after some time on: as an event that only sets the time.
      Event event;
      event.kind = Event::Kind::kill;
      event.to = victim();
      event.packet.epoch = span + draw(chance(50) ? 20 * kSecond : 100 * spread_);  // for so long
      push(event, draw(span * 2));
    }
  }
  if (trouble_ < Trouble::partitions) return;
  const uint64_t sides = random_();
  const bool pair_only = chance(30);
  const Process one = victim(), other = victim();
  const uint64_t from = draw(span * 2), lasts = chance(50) ? 2 * kSecond : draw(100 * spread_);
  const bool lost = chance(60);
  for (Process a = 0; a < size; ++a) {
    for (Process b = a + 1; b < size; ++b) {
      const bool apart =
          pair_only ? (a == one && b == other) || (a == other && b == one) : (sides >> a & 1) != (sides >> b & 1);
      if (!apart) continue;
      Cut& cut = cuts_[uint64_t{a} * size + b];
      cut = {from, from + lasts, lost, {}};
      for (uint64_t& noticed : cut.noticed) noticed = from + (chance(30) ? draw(kLiveness) : kLiveness);
      if (!lost) continue;
      for (int end = 0; end < 2; ++end) {
        Event event;
        event.kind = Event::Kind::lost;
        event.to = end == 0 ? a : b;
        event.from = end == 0 ? b : a;
        push(event, cut.noticed[end]);
      }
    }
  }
}

void Members::violation(const std::string& what) {
  if (result_.failure.empty()) result_.failure = what + " at " + std::to_string(now_) + " ns\n";
}

void Members::push(Event event, uint64_t time) {
  event.time = std::max(time, now_);
  event.order = ++order_;
  events_.push(std::move(event));
}

void Members::enter(Process process, LifeKey key) {
  const Rank rank = static_cast<Rank>(std::find(key.second.begin(), key.second.end(), process) - key.second.begin());
  Member& member = members_[process];
  if (!member.lives.empty() && key.first <= member.lives.back()->key.first) violation("an epoch went back");
  // All members of a life call the same: what that is follows from its epoch and members.
  std::mt19937_64 shared(key.first * 1000 + key.second.size() * 77 + key.second.front());
  auto life = std::make_unique<Life>(key, rank);
  life->agrees = static_cast<int>(shared() % 3);
  life->leaves = shared() % 4 == 0 && shared() % key.second.size() == rank;
  life->blamed = RankSet(life->size());
  life->wakes = now_ + draw(calls_within_);
  Event event;
  event.to = process;
  event.life = key;
  push(event, life->wakes);
  // Cuts and deaths that this connection is born into.
  for (Rank peer = 0; peer < life->size(); ++peer) {
    const Process other = key.second[peer];
    if (other == process) continue;
    const Cut& cut = cuts_[uint64_t{std::min(process, other)} * members_.size() + std::max(process, other)];
    Event bad;
    bad.to = process;
    bad.from = other;
    bad.kind = Event::Kind::lost;
    if (cut.lost && now_ >= cut.from) push(bad, now_ + kLiveness);
    bad.kind = Event::Kind::news;
    if (members_[other].dead) push(bad, now_ + draw(spread_));
    // One whose end closed before this one began it: its connection ends in time.
    if (members_[other].end != Member::End::running) {
      bad.kind = Event::Kind::packet;
      bad.life = key;
      bad.packet.kind = Packet::Kind::closed;
      push(bad, now_ + draw(spread_));
    }
  }
  for (const Event& early : std::exchange(member.early, {})) push(early, now_);
  member.lives.push_back(std::move(life));
  if (key.first > kGenerations || key.second.size() == 1) {
    if (only_kills() || key.first > kGenerations) {
      member.end = Member::End::finished;
      member.ended = now_;
    }
  }
}

Life* Members::life_of(Process process, const LifeKey& key) {
  for (auto& life : members_[process].lives) {
    if (life->key == key) return life.get();
  }
  return nullptr;
}

// False: this message is one too many.
bool Members::spend_message(Process process) {
  Member& member = members_[process];
  if (member.dead) return false;
  if (member.messages_left != ~uint64_t{0} && --member.messages_left == 0) {
    kill(process);
    return false;
  }
  return true;
}

void Members::send(Process from, Life& life, Rank to, Packet packet) {
  if (life.lost.contains(to) || members_[from].dead) return;
  const Process other = life.key.second[to];
  if (packet.kind == Packet::Kind::agreement) {
    ++result_.messages;
    const uint64_t sent = ++messages_[{life.key, packet.agreement.instance}];
    const uint64_t size = life.size();
    if (sent > 30 * size * size + 100) violation("a storm of messages");
  }
  const Cut& cut = cuts_[uint64_t{std::min(from, other)} * members_.size() + std::max(from, other)];
  uint64_t time = now_ + 1 + draw(chance(5) ? 8 * spread_ : spread_);
  if (now_ >= cut.from && cut.until > 0) {
    if (cut.lost) return;
    time = std::max(time, cut.until);
  }
  uint64_t& last = arrives_[{life.key, {from, other}}];
  last = time = std::max(time, last + 1);
  Event event;
  event.kind = Event::Kind::packet;
  event.to = other;
  event.from = from;
  event.life = life.key;
  event.packet = std::move(packet);
  push(std::move(event), time);
  spend_message(from);
}

void Members::flush(Process process, Life& life) {
  membership::Tamper::after(life.council, plant_);
  for (auto& [to, message] : life.council.take()) {
    Packet packet;
    packet.agreement = std::move(message);
    send(process, life, to, std::move(packet));
  }
}

void Members::kill(Process process) {
  Member& member = members_[process];
  if (member.dead || member.end != Member::End::running) return;
  member.dead = true;
  last_trouble_ = now_;
  ++result_.kills;
  for (Process other = 0; other < members_.size(); ++other) {
    Event event;
    event.kind = Event::Kind::news;
    event.to = other;
    event.from = process;
    if (other != process) push(event, now_ + draw(chance(20) ? 30 * spread_ : 2 * spread_));
  }
}

void Members::handle(const Event& event) {
  Member& member = members_[event.to];
  if (event.kind == Event::Kind::kill) {
    if (event.packet.epoch == 0) return kill(event.to);
    member.stopped_until = std::max(member.stopped_until, now_ + event.packet.epoch);
    last_trouble_ = now_;
    return;
  }
  if (member.dead) return;
  if (member.stopped_until > now_) {
    Event later = event;
    // Handled in order, all at once.
    later.time = member.stopped_until;
    return events_.push(std::move(later));
  }
  if (event.kind == Event::Kind::news || event.kind == Event::Kind::lost) {
    for (size_t i = 0; i < member.lives.size(); ++i) {
      Life& life = *member.lives[i];
      const auto& all = life.key.second;
      const auto peer = std::find(all.begin(), all.end(), event.from);
      if (peer == all.end()) continue;
      const bool unreachable = event.kind == Event::Kind::lost && plant_ != Plant::unreachable_is_dead;
      connection_ended(event.to, life, static_cast<Rank>(peer - all.begin()),
                       unreachable ? Agreement::Failure::unreachable : Agreement::Failure::dead);
    }
    return;
  }
  Life* life = life_of(event.to, event.life);
  if (life == nullptr && event.kind == Event::Kind::packet) member.early.push_back(event);
  if (life == nullptr || !life->open) return;
  if (event.kind == Event::Kind::packet) {
    const auto& all = life->key.second;
    const Rank from = static_cast<Rank>(std::find(all.begin(), all.end(), event.from) - all.begin());
    if (spend_message(event.to)) receive(event.to, *life, from, event.packet);
  } else {
    look(event.to, *life);
  }
}

void Members::connection_ended(Process process, Life& life, Rank peer, Agreement::Failure how) {
  if (!life.open) return;
  if (how == Agreement::Failure::dead && life.moved_on.contains(peer) && members_[life.key.second[peer]].dead == false)
    how = Agreement::Failure::unreachable;
  if (how == Agreement::Failure::unreachable) life.lost.add(peer);
  life.council.failed(peer, how);
  flush(process, life);
  look(process, life);
}

void Members::receive(Process process, Life& life, Rank from, Packet packet) {
  if (life.lost.contains(from)) return;
  switch (packet.kind) {
    case Packet::Kind::agreement: {
      AgreementMessage& said = packet.agreement;
      membership::Tamper::before(life.council, plant_, said);
      life.council.heard(from, said);
      flush(process, life);
      if (said.kind == AgreementMessage::Kind::decide && said.decision.has_value())
        life.left_behind |= membership::leaves_behind(*said.decision, life.rank, life.size());
      break;
    }
    case Packet::Kind::rejoin: {
      RankSet& came = life.texts[{packet.epoch, packet.stage}];
      if (came.size() == 0) came = RankSet(life.size());
      came.add(from);
      break;
    }
    case Packet::Kind::moved_on:
      life.moved_on.add(from);
      break;
    case Packet::Kind::closed:
      return connection_ended(
          process, life, from,
          life.moved_on.contains(from) ? Agreement::Failure::unreachable : Agreement::Failure::dead);
  }
  look(process, life);
}

// --- what a member does

void Members::look(Process process, Life& life) {
  while (!members_[process].dead && members_[process].end == Member::End::running && life.open &&
         look_once(process, life)) {
  }
}

// True: something has changed.
bool Members::look_once(Process process, Life& life) {
  const auto again_at = [&](uint64_t time) {
    if (life.wakes == time) return;
    life.wakes = time;
    Event event;
    event.to = process;
    event.life = life.key;
    push(event, time);
  };
  switch (life.doing) {
    case Life::At::pausing:
      if (now_ < life.wakes) return false;
      call(process, life);
      return true;
    case Life::At::agreeing: {
      if (life.council.decision(life.instance).has_value()) {
        const Decision decision = *life.council.decision(life.instance);
        return answered(process, life, decision);
      }
      if (life.left_behind) return end(process, life, Member::End::stale);
      if (plant_ != Plant::half_is_enough && life.council.latest().hopeless())
        return end(process, life, Member::End::no_quorum);
      switch (life.patience->at(at(now_))) {
        case Patience::Now::over:
          return end(process, life, life.patience->gives_up() ? Member::End::no_quorum : Member::End::timeout);
        case Patience::Now::impatient:
          life.council.impatient();
          flush(process, life);
          return true;
        case Patience::Now::wait:
          again_at(nanoseconds(life.patience->next()));
          return false;
      }
      return false;
    }
    case Life::At::meeting: {
      RankSet& came = life.texts[{life.rebirth->next_epoch(), life.stage}];
      if (came.size() == 0) came = RankSet(life.size());
      came.add(life.rank);
      bool met = true;
      if (came.includes(life.rebirth->survivors())) {
        if (life.stage < kStages) {
          ++life.stage;
          begin_stage(process, life);
          return true;
        }
      } else if (!(life.rebirth->survivors() - life.council.failed_members() == life.rebirth->survivors()) ||
                 now_ >= life.meets_until) {
        met = false;
      } else {
        again_at(life.meets_until);
        return false;
      }
      if (plant_ == Plant::no_second_agreement && met) {
        Decision all;
        all.purpose = membership::kHaveMet;
        all.flags = 1;
        all.came = life.rebirth->survivors();
        life.rebirth->met(true);
        life.rebirth->decided(all);
      } else {
        life.rebirth->met(met);
      }
      return next_step(process, life);
    }
  }
  return false;
}

void Members::begin(Process process, Life& life, membership::Contribution mine, const RankSet& suspects) {
  life.doing = Life::At::agreeing;
  life.purpose = mine.purpose;
  const uint32_t instance = life.council.next();
  values_[{life.key, instance}][process] = mine.flags;
  life.instance = life.council.begin(std::move(mine), quorum_, suspects);
  flush(process, life);
}

void Members::call(Process process, Life& life) {
  life.deadline = now_ + kTimeout;
  if (life.agrees > 0) {
    --life.agrees;
    membership::Contribution mine;
    mine.purpose = membership::kAgree;
    mine.flags = random_();
    life.patience = Patience::endless(at(life.deadline));
    return begin(process, life, std::move(mine), life.blamed);
  }
  if (life.leaves) {
    membership::Contribution mine;
    mine.purpose = membership::kShrink;
    mine.flags = ~uint64_t{0};
    mine.leaving = true;
    life.patience = Patience::endless(at(life.deadline));
    return begin(process, life, std::move(mine), life.blamed);
  }
  // Whoever waited in vain for a stopped member blames it.
  for (Rank peer = 0; peer < life.size(); ++peer) {
    if (peer != life.rank && members_[life.key.second[peer]].stopped_until > now_ && chance(50)) life.blamed.add(peer);
  }
  life.rebirth.emplace(life.rank, life.size(), life.key.first);
  next_step(process, life);
}

bool Members::answered(Process process, Life& life, const Decision& decision) {
  ++result_.decisions;
  check_decision(process, life, decision);
  if (!membership::answers(decision, life.purpose)) return end(process, life, Member::End::mismatch);
  if (life.purpose == membership::kAgree) {
    life.doing = Life::At::pausing;
    life.wakes = now_ + draw(calls_within_);
    Event event;
    event.to = process;
    event.life = life.key;
    push(event, life.wakes);
    return true;
  }
  if (life.leaves) return end(process, life, Member::End::left);
  life.rebirth->decided(decision);
  return next_step(process, life);
}

bool Members::next_step(Process process, Life& life) {
  Rebirth& rebirth = *life.rebirth;
  switch (rebirth.step()) {
    case Rebirth::Step::agree:
      if (now_ >= life.deadline) return end(process, life, Member::End::timeout);
      life.patience = Patience::half(at(now_), at(life.deadline));
      begin(process, life, rebirth.contribution(0), rebirth.suspects(life.blamed));
      return true;
    case Rebirth::Step::meet:
      life.doing = Life::At::meeting;
      life.stage = 1;
      life.meets_until = std::min(life.deadline, now_ + kMeeting);
      begin_stage(process, life);
      return true;
    case Rebirth::Step::done: {
      LifeKey next{rebirth.next_epoch(), {}};
      for (const Rank rank : rebirth.survivors().ranks()) next.second.push_back(life.key.second[rank]);
      ++result_.reborn;
      check_successor(process, life, next);
      end_life(process, life, true);
      if (!members_[process].dead) enter(process, std::move(next));
      return false;
    }
    case Rebirth::Step::left_behind:
      return end(process, life, Member::End::stale);
    case Rebirth::Step::mismatch:
      return end(process, life, Member::End::mismatch);
  }
  return false;
}

void Members::begin_stage(Process process, Life& life) {
  Packet packet;
  packet.kind = Packet::Kind::rejoin;
  packet.epoch = life.rebirth->next_epoch();
  packet.stage = life.stage;
  for (const Rank rank : life.rebirth->survivors().ranks()) {
    if (rank != life.rank) send(process, life, rank, packet);
  }
}

void Members::end_life(Process process, Life& life, bool moves_on) {
  life.council.farewell();
  flush(process, life);
  for (const Packet::Kind kind : {Packet::Kind::moved_on, Packet::Kind::closed}) {
    if (kind == Packet::Kind::moved_on && !moves_on) continue;
    Packet packet;
    packet.kind = kind;
    for (Rank rank = 0; rank < life.size(); ++rank) {
      if (rank != life.rank) send(process, life, rank, packet);
    }
  }
  life.open = false;
}

bool Members::end(Process process, Life& life, Member::End how) {
  Member& member = members_[process];
  end_life(process, life, false);
  if (member.dead) return false;
  member.end = how;
  member.ended = now_;
  result_.no_quorum += how == Member::End::no_quorum;
  result_.left_behind += how == Member::End::stale;
  return false;
}

// --- what must hold

void Members::check_decision(Process process, const Life& life, const Decision& decision) {
  const auto which = std::make_pair(life.key, life.instance);
  std::vector<Answer>& known = answers_[which];
  for (const Answer& other : known) {
    // What only the dead know does not bind, but under majorities it is known to more.
    if (members_[other.by].dead && quorum_ != Quorum::majority) continue;
    if (!(other.decision == decision)) {
      violation("members " + std::to_string(other.by) + " and " + std::to_string(process) +
                " got different answers in epoch " + std::to_string(life.key.first) + ", agreement " +
                std::to_string(life.instance));
    }
  }
  known.push_back({process, decision});
  uint64_t flags = ~uint64_t{0};
  for (const Rank rank : decision.came.ranks()) {
    const auto& values = values_[which];
    const auto brought = values.find(life.key.second[rank]);
    if (brought == values.end()) return violation("a decision counts a member that has brought nothing");
    flags &= brought->second;
  }
  if (!decision.mixed && flags != decision.flags) violation("an answer is not the and of what was brought");
  if (!decision.came.includes(decision.survivors)) violation("a survivor has not contributed");
}

void Members::check_successor(Process process, const Life& life, const LifeKey& next) {
  auto& known = successors_[life.key];
  for (const auto& [by, other] : known) {
    if (members_[by].dead && quorum_ != Quorum::majority) continue;
    if (other != next) {
      violation("members " + std::to_string(by) + " and " + std::to_string(process) +
                " went on in different groups from epoch " + std::to_string(life.key.first));
    }
  }
  known.emplace_back(process, next);
}

void Members::check_end() {
  for (Process process = 0; process < members_.size(); ++process) {
    const Member& member = members_[process];
    if (member.dead) continue;
    const std::string who = "member " + std::to_string(process);
    if (member.end == Member::End::running) violation(who + " has not come to an end");
    if (member.end == Member::End::mismatch) violation(who + " was told of a mismatch");
    if (only_kills() && member.end != Member::End::finished && member.end != Member::End::left)
      violation(who + " did not finish, but ended with " + std::to_string(static_cast<int>(member.end)));
    const uint64_t a_life = 3 * calls_within_ + 200 * spread_;
    if (only_kills() && member.ended > last_trouble_ + (kGenerations + 1) * a_life) violation(who + " took too long");
  }
}

MembersResult Members::run() {
  for (uint64_t steps = 0; !events_.empty() && result_.failure.empty(); ++steps) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    handle(event);
    if (steps > 1'000'000) violation("too many steps");
  }
  if (result_.failure.empty()) check_end();
  return std::move(result_);
}

}  // namespace

MembersResult run_members(uint64_t seed, Trouble trouble, Plant plant) { return Members(seed, trouble, plant).run(); }

}  // namespace regroup::simulation
