// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_network.h"

#include <algorithm>

#include "base/assert.h"
#include "base/hash.h"

namespace regroup::transport::sim {

namespace {

// Enough to see that something is wrong and what.
constexpr size_t kMostViolations = 16;

}  // namespace

SimNetwork::SimNetwork(SimOptions options) : options_(std::move(options)), random_(options_.seed) {
  const size_t pairs = size_t{options_.size} * options_.size;
  REGROUP_ASSERT(options_.memory_domain.empty() || options_.memory_domain.size() == options_.size);
  const auto one_of = [this](std::initializer_list<uint64_t> values) {
    return *(values.begin() + draw(values.size()));
  };
  spread_ = one_of({10, 1'000, 100'000});
  picoseconds_ = one_of({1, 100, 100'000});
  chunk_ = one_of({64, 1'024, 65'536});
  rendezvous_ = one_of({0, 128, 256});
  slow_ = one_of({0, 16, 64});
  pauses_ = one_of({0, 16, 128});
  time_passes_ = one_of({0, 64, 192});
  link_delay_.assign(pairs, 0);
  last_visible_.assign(pairs, 0);
  credit_.assign(pairs, static_cast<uint32_t>(1 + draw(4)));
  schedules_.resize(options_.size);
  for (Rank rank = 0; rank < options_.size; ++rank) {
    ranks_.push_back(std::make_unique<SimTransport>(*this, rank));
    ranks_.back()->mapped_ = chance(128);
  }
}

SimNetwork::~SimNetwork() = default;

Nanoseconds SimNetwork::delay(Rank from, Rank to) {
  const Nanoseconds usual = 1 + draw(spread_);
  return usual * (chance(slow_) ? 20 : 1) + link_delay_[size_t{from} * options_.size + to];
}

Nanoseconds SimNetwork::transfer_time(uint64_t bytes) { return bytes * (1 + draw(picoseconds_)) / 1'000; }

void SimNetwork::schedule(Event event, Nanoseconds after) {
  event.time = now_ + after;
  event.order = order_++;
  events_.push(std::move(event));
}

// To each peer after its own delay, but what a rank publishes becomes visible to a peer in the order of publication.
void SimNetwork::publish(Rank owner, uint64_t progress) {
  for (Rank viewer = 0; viewer < options_.size; ++viewer) {
    if (viewer == owner) continue;
    Nanoseconds& visible = last_visible_[size_t{owner} * options_.size + viewer];
    visible = std::max(visible, now_ + delay(owner, viewer));
    schedule({.kind = Event::Kind::published, .rank = viewer, .from = owner, .value = progress}, visible - now_);
  }
}

void SimNetwork::process_next() {
  const Event event = events_.top();
  events_.pop();
  now_ = event.time;
  trace_ = base::mix(
      trace_,
      base::mix(now_, static_cast<uint64_t>(event.kind) << 48 | uint64_t{event.rank} << 24 | event.from) ^ event.value);
  SimTransport& rank = *ranks_[event.rank];
  schedules_[event.rank].news = true;
  switch (event.kind) {
    case Event::Kind::published:
      rank.progress_[event.from] = std::max(rank.progress_[event.from], event.value);
      break;
    case Event::Kind::written:
      rank.take_copies();
      break;
    case Event::Kind::withdrawn:
      rank.withdrawn_ = std::max(rank.withdrawn_, event.value);
      break;
    case Event::Kind::resumed:
      schedules_[event.rank].paused = false;
      break;
    default:
      rank.inbox_.push_back(event);
  }
}

void SimNetwork::pause(Rank rank) {
  schedules_[rank].paused = true;
  schedule({.kind = Event::Kind::resumed, .rank = rank}, 1 + draw(50 * spread_));
}

// Any rank that may have something to do.
bool SimNetwork::pick(Rank* rank) {
  runnable_.clear();
  for (Rank each = 0; each < options_.size; ++each) {
    const Schedule& state = schedules_[each];
    if (state.news && !state.paused && !state.stopped && !state.finished) runnable_.push_back(each);
  }
  if (runnable_.empty()) return false;
  *rank = runnable_[draw(runnable_.size())];
  return true;
}

SimNetwork::Ending SimNetwork::run(std::span<const std::function<Turn()>> drivers, uint64_t most_turns) {
  REGROUP_ASSERT(drivers.size() == options_.size);
  for (Schedule& state : schedules_) {
    state.news = true;
    state.finished = false;
  }
  for (uint64_t turns = 0; turns < most_turns; ++turns) {
    Rank rank = 0;
    if (!pick(&rank)) {
      const bool finished = std::all_of(schedules_.begin(), schedules_.end(),
                                        [](const Schedule& state) { return state.finished || state.stopped; });
      if (finished) return Ending::finished;
      if (events_.empty()) return Ending::stuck;
      process_next();
      continue;
    }
    Schedule& state = schedules_[rank];
    state.news = false;
    const Turn turn = drivers[rank]();
    trace_ = base::mix(trace_, uint64_t{rank} << 8 | static_cast<uint64_t>(turn));
    state.finished = turn == Turn::finished;
    state.news = state.news || turn == Turn::moved;
    if (!state.finished && chance(pauses_)) pause(rank);
    if (!events_.empty() && chance(time_passes_)) process_next();
  }
  return Ending::exhausted;
}

void SimNetwork::stop(Rank rank) { schedules_[rank].stopped = true; }

void SimNetwork::delay_link(Rank from, Rank to, Nanoseconds more) {
  link_delay_[size_t{from} * options_.size + to] = more;
}

void SimNetwork::violation(std::string text) {
  if (violations_.size() < kMostViolations) violations_.push_back(std::move(text));
}

std::string SimNetwork::describe() const {
  std::string text;
  for (Rank rank = 0; rank < options_.size; ++rank) {
    if (schedules_[rank].finished) continue;
    text += (schedules_[rank].stopped ? "stopped " : "") + ranks_[rank]->describe() + "\n";
  }
  return text;
}

}  // namespace regroup::transport::sim
