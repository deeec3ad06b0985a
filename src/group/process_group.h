// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles ProcessGroup, Prepared and Work.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "group/atomic.h"
#include "regroup/group.h"
#include "regroup/work.h"

namespace regroup {

// One life of a group: from joining, shrinking or reconfiguring to the next.
struct Life {
  std::shared_ptr<backend::Backend> backend;
  std::vector<Rank> members;
};

// Where a group comes from: what its next lives need.
struct Origin {
  // Joins the members that come to a meeting; the epoch is to be above the one given.
  std::function<Result<Life>(const Membership& membership, uint64_t previous_epoch)> meet;
  // Where newcomers ask to be admitted, and under what name; nullptr for a group that was cut from another.
  std::shared_ptr<Store> store;
  std::string name;
};

class ProcessGroup::Impl {
 public:
  Impl(Life first, std::chrono::nanoseconds timeout, Origin origin) : timeout_(timeout), origin_(std::move(origin)) {
    begin(std::move(first));
  }

  // The life at hand. Those that are over stay, closed, since other threads may be looking at them.
  const Life& life() const { return *life_.load(std::memory_order_acquire); }
  backend::Backend& backend() const { return *life().backend; }
  void begin(Life next) {
    std::lock_guard lock(lives_mutex_);
    lives_.push_back(std::make_unique<Life>(std::move(next)));
    life_.store(lives_.back().get(), std::memory_order_release);
  }
  // Held by whoever is about to begin a life.
  std::timed_mutex& rebirth() { return rebirth_; }
  const Origin& origin() const { return origin_; }
  group::AtomicRunner& atomic() { return atomic_; }
  std::chrono::nanoseconds timeout() const { return timeout_.load(std::memory_order_relaxed); }
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_.store(timeout, std::memory_order_relaxed); }

 private:
  std::atomic<const Life*> life_ = nullptr;
  std::mutex lives_mutex_;
  std::vector<std::unique_ptr<Life>> lives_;
  std::timed_mutex rebirth_;
  std::atomic<std::chrono::nanoseconds> timeout_;
  const Origin origin_;
  group::AtomicRunner atomic_;
};

struct Work::State {
  std::shared_ptr<ProcessGroup::Impl> group;  // keeps it until the work is dropped
  std::shared_ptr<backend::Pending> pending;  // nullptr: refused at once, with `refusal`
  Status refusal;
};

struct Prepared::State {
  std::shared_ptr<ProcessGroup::Impl> group;
  const Life* life = nullptr;  // for which it was prepared: in another, ranks and sizes differ
  Operation operation;         // owns the lists that `request` was made from
  backend::Request request;
};

}  // namespace regroup
