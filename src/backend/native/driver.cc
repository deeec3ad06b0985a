// SPDX-License-Identifier: Apache-2.0
// The loop of the thread that drives a group: turn after turn while something moves; then spin, yield, and sleep.
#include <sched.h>

#include "backend/native/native_backend.h"
#include "base/fence.h"

namespace regroup::backend::native {

namespace {

// With a core for every rank a peer's answer is under a microsecond away: spin for some. With more ranks than cores the
// peer may need this core: yield at once.
constexpr int kSpins = 2000;
constexpr int kSpinsOversubscribed = 1;
// A turn over sockets asks the kernel, and takes a microsecond or more.
constexpr int kSpinsOverSockets = 50;
// Yields before sleeping; a yield costs from some 0.1 µs (nobody else wants the core) up.
constexpr int kYields = 400;
// Where there are only sockets the kernel wakes a sleeper as soon as there is something for it. So yield once, for the
// peer that may be next on this core, and sleep: each further turn would ask in vain, and each further yield may give
// the core to somebody else for milliseconds.
constexpr int kYieldsOverSockets = 1;
// While things move, deadlines are looked at every so many turns.
constexpr uint32_t kBusyTurns = 64;

}  // namespace

int NativeBackend::spins() const {
  return oversubscribed_ ? kSpinsOversubscribed : tcp_ != nullptr ? kSpinsOverSockets : kSpins;
}

// Until `mine` is done, or (without one) until nothing is left or somebody waits who can drive.
void NativeBackend::drive(Job* mine, base::Time until) {
  const int most_spins = spins();
  const int yields = only_sockets() ? kYieldsOverSockets : kYields;
  int idle_turns = 0;
  uint32_t busy_turns = 0;
  while (true) {
    if (has_incoming_.load(std::memory_order_acquire)) adopt();
    if (alarm_.load(std::memory_order_acquire)) attend_to_alarm();
    const bool moved = turn();
    if (mine != nullptr ? mine->done() : idle() || waiters_.load(std::memory_order_relaxed) > 0) return;
    if (moved) {
      idle_turns = 0;
      if (++busy_turns % kBusyTurns == 0) look_at_clock();
      continue;
    }
    ++idle_turns;
    if (idle_turns <= most_spins) {
      base::spin_hint();
      if (idle_turns % 512 == 0) look_at_clock();
      continue;
    }
    look_at_clock();
    if (until != base::Time::max() && base::Clock::now() >= until) return;
    if (idle_turns <= most_spins + yields) {
      sched_yield();
    } else if (sleep_until(until)) {
      idle_turns = most_spins;
    }
  }
}

void NativeBackend::adopt() {
  std::lock_guard lock(mutex_);
  for (Job* job : incoming_) {
    if (job->collective()) {
      collectives_.push_back(job);
    } else {
      pairwise_.push_back(job);
    }
  }
  incoming_.clear();
  has_incoming_.store(false, std::memory_order_relaxed);
}

bool NativeBackend::turn() {
  bool moved = false;
  if (!collectives_.empty()) moved |= advance_collective();
  if (!pairwise_.empty()) moved |= advance_pairwise();
  return moved;
}

// Deadlines, and questions to ranks that keep us waiting.
void NativeBackend::look_at_clock() {
  const base::Time now = base::Clock::now();
  const auto look = [&](Job& job) {
    if (!job.timed_) {
      job.timed_ = true;
      job.began_ = now;
      job.deadline_ = base::deadline_after(job.request().timeout, now);
      job.question_pause_ = std::min<base::Duration>(std::chrono::milliseconds(20), job.request().timeout / 4);
      // Inside one host the lines tell who has come; what they do not tell is asked once: who still lives.
      job.next_question_ = all_local_ ? last_question(job) : now + job.question_pause_;
    }
    if (now >= job.deadline_) {
      break_group(expired(job), true);
      return false;
    }
    if (now >= job.next_question_) ask_around(job, now);
    return true;
  };
  for (Job* job : collectives_) {
    if (!look(*job)) return attend_to_alarm();
  }
  for (Job* job : pairwise_) {
    if (!look(*job)) return attend_to_alarm();
  }
}

// Sleeps until something may have happened. True if it slept.
bool NativeBackend::sleep_until(base::Time until) {
  if (!transport_->prepare_sleep()) return false;
  // Armed: what was published before this turn is seen by it, what comes later rings the bell.
  if (has_incoming_.load(std::memory_order_acquire) || alarm_.load(std::memory_order_acquire) || turn()) {
    transport_->woke();
    return false;
  }
  for (const auto* jobs : {&pairwise_}) {
    for (const Job* job : *jobs) until = std::min({until, job->deadline_, job->next_question_});
  }
  for (const Job* job : collectives_) {
    until = std::min({until, job->deadline_, job->next_question_});
    if (job->phase_ == Job::Phase::conflicted) until = std::min(until, job->conflict_until_);
  }
  if (!idle()) waker_.sleep(look_at_library_again(until));
  transport_->woke();
  return true;
}

}  // namespace regroup::backend::native
