// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace regroup::plan {

namespace {

struct Published {
  Mark mark;
  double at;
};

class Prediction {
 public:
  Prediction(std::span<const Schedule> schedules, const Topology& topology, uint64_t element_bytes, bool messages_only,
             const CostModel& model)
      : schedules_(schedules),
        topology_(topology),
        element_bytes_(element_bytes),
        messages_only_(messages_only),
        model_(model),
        ranks_(schedules.size()) {}

  Cost run() {
    place();
    bool moved = true;
    while (moved) {
      moved = false;
      for (Rank rank = 0; rank < ranks_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    Cost cost;
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      const State& state = ranks_[rank];
      cost.us = std::max(cost.us, state.last);
      cost.steps = std::max<uint64_t>(cost.steps, state.ended.size());
      cost.sent_bytes = std::max(cost.sent_bytes, state.sent);
      cost.read_bytes = std::max(cost.read_bytes, state.read);
      cost.total_sent_bytes += state.sent;
      cost.total_read_bytes += state.read;
      cost.complete = cost.complete && state.next == state.ended.size();
    }
    return cost;
  }

 private:
  static constexpr Rank kNobody = ~Rank{0};

  struct Core {
    double free = 0;  // when it is
    Rank last = kNobody;
  };

  struct State {
    std::vector<double> ended;  // by step
    StepIndex next = 0;
    size_t core = 0;
    double slowdown = 1;  // of bytes, by what its host's caches do not hold
    double arrived = 0;   // its call has begun: others may read its memory
    double port = 0;      // when its way into the network is free
    double last = 0;
    std::vector<Published> published;
    uint64_t sent = 0, read = 0;
  };

  struct Arrival {
    double first, last;  // when the first byte is there, and the last one
  };

  // Ranks to cores, and begins all calls.
  void place() {
    std::vector<double> moved(topology_.hosts(), 0);
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].ended.resize(schedules_[rank].steps().size());
      for (const Step& step : schedules_[rank].steps()) {
        moved[topology_.host_of(rank)] += static_cast<double>(step.to.count * element_bytes_);
      }
    }
    const unsigned cores = model_.cores;
    cores_.resize(cores == 0 ? ranks_.size() : size_t{topology_.hosts()} * cores);
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      const uint32_t host = topology_.host_of(rank);
      State& state = ranks_[rank];
      state.core = cores == 0 ? rank : size_t{host} * cores + topology_.local_rank(rank) % cores;
      const double left_out = std::max(0.0, 1 - model_.cache_bytes / std::max(moved[host], 1.0));
      state.slowdown = 1 + (model_.beyond_cache - 1) * left_out;
      state.arrived = work(rank, 0, model_.step_us);
      state.last = state.arrived;
    }
  }

  const Wire& between(Rank a, Rank b) const {
    if (!topology_.same_host(a, b)) return model_.network;
    return messages_only_ ? model_.loopback : model_.inside_host;
  }

  // Performs the rank's next step; false if it has none, or waits for a rank that has not come so far.
  bool step(Rank rank) {
    State& state = ranks_[rank];
    const Schedule& schedule = schedules_[rank];
    if (state.next == state.ended.size()) return false;
    const Step& step = schedule.steps()[state.next];
    double ready = state.arrived;
    for (const StepIndex earlier : schedule.after(step)) ready = std::max(ready, state.ended[earlier]);
    double ended = 0;
    if (!perform(rank, step, ready, &ended)) return false;
    state.ended[state.next++] = ended;
    state.last = std::max(state.last, ended);
    return true;
  }

  // Work of the rank's own core, when that is free.
  double work(Rank rank, double ready, double us) {
    Core& core = cores_[ranks_[rank].core];
    if (core.last != kNobody && core.last != rank) core.free += model_.switch_us;
    core.last = rank;
    core.free = std::max(ready, core.free) + us;
    return core.free;
  }

  bool perform(Rank rank, const Step& step, double ready, double* ended) {
    State& state = ranks_[rank];
    const uint64_t bytes = step.to.count * element_bytes_;
    switch (step.kind) {
      case StepKind::copy:
      case StepKind::reduce:
      case StepKind::get:
      case StepKind::get_reduce:
        *ended = reading(rank, step, ready, bytes);
        return true;
      case StepKind::send:
        *ended = send(rank, step, ready);
        return true;
      case StepKind::receive:
      case StepKind::receive_reduce:
        return receive(rank, step, ready, bytes, ended);
      case StepKind::notify:
        *ended = work(rank, ready, model_.step_us);
        state.published.push_back({step.mark, *ended + model_.mark_us});
        return true;
      case StepKind::await:
        for (const Published& published : ranks_[step.peer].published) {
          if (published.mark < step.mark) continue;
          *ended = std::max(ready, published.at);
          return true;
        }
        return false;
    }
    return false;
  }

  double reading(Rank rank, const Step& step, double ready, uint64_t bytes) {
    State& state = ranks_[rank];
    double us = model_.step_us;
    double gain = 1;
    if (model_.threads > 1 && static_cast<double>(bytes) >= model_.team_from) {
      gain = team_gain(model_, static_cast<Rank>(topology_.members(topology_.host_of(rank)).size()));
      if (gain > 1) us += model_.team_us;
    }
    for (const Source& source : schedules_[rank].sources(step)) {
      const bool own = source.rank == rank;
      const Link& link = own ? model_.memory : model_.mapped ? model_.mapped_reads : model_.reads;
      us += link.latency_us + link.us_per_byte * state.slowdown * static_cast<double>(bytes) / gain;
      if (own) continue;
      state.read += bytes;
      ready = std::max(ready, ranks_[source.rank].arrived);
    }
    return work(rank, ready, us);
  }

  // Both sides work on the bytes, at the same time where they have a core each.
  double send(Rank rank, const Step& step, double ready) {
    State& state = ranks_[rank];
    const uint64_t bytes = schedules_[rank].sources(step)[0].slice.count * element_bytes_;
    const double size = static_cast<double>(bytes);
    const Wire& wire = between(rank, step.peer);
    const double own = wire.side_us_per_byte * state.slowdown * size;
    const double sent = work(rank, ready, model_.step_us + wire.side_us + own);
    const double begin = std::max(sent - own, state.port);
    state.port = begin + wire.link.us_per_byte * size;
    state.sent += bytes;
    const double last = std::max(sent, state.port);
    arrivals_[{rank, step.peer, step.message}] = {begin + wire.link.latency_us, last + wire.link.latency_us};
    return last;
  }

  bool receive(Rank rank, const Step& step, double ready, uint64_t bytes, double* ended) {
    const auto arrival = arrivals_.find({step.peer, rank, step.message});
    if (arrival == arrivals_.end()) return false;
    const Wire& wire = between(rank, step.peer);
    const double size = static_cast<double>(bytes) * ranks_[rank].slowdown;
    const double first = std::max(ready, arrival->second.first);
    *ended =
        std::max(work(rank, first, model_.step_us + wire.side_us + wire.side_us_per_byte * size), arrival->second.last);
    if (step.kind == StepKind::receive_reduce) *ended = work(rank, *ended, 2 * model_.memory.us_per_byte * size);
    return true;
  }

  struct MessageKey {
    Rank from, to;
    uint32_t message;
    auto operator<=>(const MessageKey&) const = default;
  };

  std::span<const Schedule> schedules_;
  const Topology& topology_;
  uint64_t element_bytes_;
  bool messages_only_;
  const CostModel& model_;
  std::vector<State> ranks_;
  std::vector<Core> cores_;
  std::map<MessageKey, Arrival> arrivals_;
};

}  // namespace

double team_gain(const CostModel& model, Rank ranks) {
  double gain = std::min<double>(model.threads, model.bandwidth / ranks);
  if (model.cores > 0) gain = std::min<double>(gain, model.cores / ranks);
  return std::max(gain, 1.0);
}

Cost predict(std::span<const Schedule> schedules, const Topology& topology, uint64_t element_bytes, bool messages_only,
             const CostModel& model) {
  return Prediction(schedules, topology, element_bytes, messages_only, model).run();
}

}  // namespace regroup::plan
