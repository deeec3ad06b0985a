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
    for (size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].ended.resize(schedules_[rank].steps().size());
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
  struct State {
    std::vector<double> ended;  // by step
    StepIndex next = 0;
    double free = 0;  // when the rank's processor is free
    double port = 0;  // when its way into the network is
    double last = 0;
    std::vector<Published> published;
    uint64_t sent = 0, read = 0;
  };

  const Link& between(Rank a, Rank b) const {
    return !messages_only_ && topology_.same_host(a, b) ? model_.inside_host : model_.network;
  }

  // Performs the rank's next step; false if it has none, or waits for a rank that has not come so far.
  bool step(Rank rank) {
    State& state = ranks_[rank];
    const Schedule& schedule = schedules_[rank];
    if (state.next == state.ended.size()) return false;
    const Step& step = schedule.steps()[state.next];
    double ready = 0;
    for (const StepIndex earlier : schedule.after(step)) ready = std::max(ready, state.ended[earlier]);
    double ended = 0;
    if (!perform(rank, step, ready, &ended)) return false;
    state.ended[state.next++] = ended;
    state.last = std::max(state.last, ended);
    return true;
  }

  // Work of the rank's own processor.
  double work(State& state, double ready, double us) {
    state.free = std::max(ready, state.free) + model_.step_us + us;
    return state.free;
  }

  bool perform(Rank rank, const Step& step, double ready, double* ended) {
    State& state = ranks_[rank];
    const uint64_t bytes = step.to.count * element_bytes_;
    switch (step.kind) {
      case StepKind::copy:
      case StepKind::reduce:
      case StepKind::get:
      case StepKind::get_reduce:
        *ended = work(state, ready, reading_us(rank, step, bytes));
        return true;
      case StepKind::send:
        *ended = send(rank, step, ready);
        return true;
      case StepKind::receive:
      case StepKind::receive_reduce:
        return receive(rank, step, ready, bytes, ended);
      case StepKind::notify:
        *ended = work(state, ready, 0);
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

  double reading_us(Rank rank, const Step& step, uint64_t bytes) {
    double us = 0;
    for (const Source& source : schedules_[rank].sources(step)) {
      const bool own = source.rank == rank;
      const Link& link = own ? model_.memory : model_.inside_host;
      us += link.latency_us + link.us_per_byte * static_cast<double>(bytes);
      if (!own) ranks_[rank].read += bytes;
    }
    return us;
  }

  double send(Rank rank, const Step& step, double ready) {
    State& state = ranks_[rank];
    const uint64_t bytes = schedules_[rank].sources(step)[0].slice.count * element_bytes_;
    const Link& link = between(rank, step.peer);
    const double begin = work(state, ready, 0);
    state.port = std::max(begin, state.port) + link.us_per_byte * static_cast<double>(bytes);
    state.sent += bytes;
    arrivals_[{rank, step.peer, step.message}] = state.port + link.latency_us;
    return state.port;
  }

  bool receive(Rank rank, const Step& step, double ready, uint64_t bytes, double* ended) {
    const auto arrival = arrivals_.find({step.peer, rank, step.message});
    if (arrival == arrivals_.end()) return false;
    *ended = std::max(ready, arrival->second);
    if (step.kind == StepKind::receive_reduce) {
      *ended = work(ranks_[rank], *ended, 2 * model_.memory.us_per_byte * static_cast<double>(bytes));
    }
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
  std::map<MessageKey, double> arrivals_;
};

}  // namespace

Cost predict(std::span<const Schedule> schedules, const Topology& topology, uint64_t element_bytes, bool messages_only,
             const CostModel& model) {
  return Prediction(schedules, topology, element_bytes, messages_only, model).run();
}

}  // namespace regroup::plan
