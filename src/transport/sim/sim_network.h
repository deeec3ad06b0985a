// SPDX-License-Identifier: Apache-2.0
// A simulated group: all ranks in one thread, on a virtual clock, everything that chance decides drawn from one seed.
// What the network does to a rank is what real wires may do: news of a peer comes late and at each rank at another
// time, messages overtake each other, sends are buffered or wait for their receiver, bandwidth varies, ranks pause. The
// same seed and the same drivers give the same run.
//
// It does not know what the ranks do: they are functions that it calls in turn. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "transport/sim/sim_transport.h"

namespace regroup::transport::sim {

using Nanoseconds = uint64_t;  // of the virtual clock

// Deliberate breaches of the transport's contract, to see whether a test notices.
enum class Breach : uint8_t {
  none,
  marks_before_writes,  // peers see a mark before what was written ahead of it
  late_withdrawal,      // peers learn that memory was taken back only after a delay
  early_done,           // a send that waits for its receiver is called done at once
};

struct SimOptions {
  Rank size = 1;
  uint64_t seed = 0;
  // By rank: a label; ranks with equal labels read each other's memory. Empty: nobody does.
  std::vector<uint32_t> memory_domain;
  // The most bytes of eager operations; 0: not offered. Needs all ranks in one memory domain.
  uint64_t eager_limit = 0;
  bool lends = false;  // inputs of eager operations are lent where that is allowed
  Breach breach = Breach::none;
  // Called after a read of `owner`'s memory and before the look whether it counts: the moment at which another thread
  // of control could interfere.
  std::function<void(Rank reader, Rank owner)> after_read;
};

class SimNetwork {
 public:
  explicit SimNetwork(SimOptions options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  SimTransport& at(Rank rank) { return *ranks_[rank]; }
  Rank size() const { return options_.size; }
  Nanoseconds now() const { return now_; }
  // A hash over all that has happened so far.
  uint64_t trace() const { return trace_; }

  enum class Turn : uint8_t { moved, waiting, finished };
  enum class Ending : uint8_t {
    finished,   // every rank that was not stopped
    stuck,      // ranks wait, and nothing is on the way to any of them
    exhausted,  // `most_turns` were taken
  };
  // Lets the ranks run in turn, drivers[r] one step of rank r's work, until all have finished. May be called again.
  Ending run(std::span<const std::function<Turn()>> drivers, uint64_t most_turns = 10'000'000);

  // A rank gets no turns any more. Its memory stays readable.
  void stop(Rank rank);
  // The same, and its memory is gone.
  void kill(Rank rank);
  // Everything between these two takes so much longer from now on, in this direction.
  void delay_link(Rank from, Rank to, Nanoseconds more);

  // What ranks did that they must not, whatever the timing: empty in a correct run.
  const std::vector<std::string>& violations() const { return violations_; }
  // For people: what each rank has seen and waits for.
  std::string describe() const;

 private:
  friend class SimTransport;

  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };

  uint64_t draw(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool chance(uint64_t of_256) { return draw(256) < of_256; }
  Nanoseconds delay(Rank from, Rank to);
  Nanoseconds transfer_time(uint64_t bytes);
  void schedule(Event event, Nanoseconds after);
  void publish(Rank owner, uint64_t progress);
  void process_next();
  void pause(Rank rank);
  bool pick(Rank* rank);
  void violation(std::string text);

  SimOptions options_;
  std::mt19937_64 random_;
  Nanoseconds now_ = 0;
  uint64_t order_ = 0;
  uint64_t trace_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<std::unique_ptr<SimTransport>> ranks_;
  std::vector<Nanoseconds> link_delay_;    // by from · size + to
  std::vector<Nanoseconds> last_visible_;  // likewise: when the latest publication becomes visible
  std::vector<uint32_t> credit_;           // likewise: messages that may still be buffered
  struct Schedule {
    bool news = true, paused = false, stopped = false, dead = false, finished = false;
  };
  std::vector<Schedule> schedules_;
  std::vector<Rank> runnable_;
  std::vector<std::string> violations_;

  // What this seed's network is like.
  Nanoseconds spread_ = 0;    // most of a usual delay
  uint64_t picoseconds_ = 0;  // a byte, at most
  uint64_t chunk_ = 64;       // bytes that move at a time
  uint64_t rendezvous_ = 0;   // of 256 messages
  uint64_t slow_ = 0;         // of 256 delays
  uint64_t pauses_ = 0;       // of 256 turns
  uint64_t time_passes_ = 0;  // of 256 turns
};

}  // namespace regroup::transport::sim
