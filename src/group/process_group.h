// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles ProcessGroup, Prepared and Work.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "regroup/group.h"
#include "regroup/work.h"

namespace regroup {

class ProcessGroup::Impl {
 public:
  Impl(std::shared_ptr<backend::Backend> backend, std::vector<Rank> members, std::chrono::nanoseconds timeout)
      : backend_(std::move(backend)), members_(std::move(members)), timeout_(timeout) {}

  backend::Backend& backend() { return *backend_; }
  const std::vector<Rank>& members() const { return members_; }
  std::chrono::nanoseconds timeout() const { return timeout_.load(std::memory_order_relaxed); }
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_.store(timeout, std::memory_order_relaxed); }

 private:
  std::shared_ptr<backend::Backend> backend_;
  std::vector<Rank> members_;
  std::atomic<std::chrono::nanoseconds> timeout_;
};

struct Work::State {
  std::shared_ptr<ProcessGroup::Impl> group;  // keeps it until the work is dropped
  std::shared_ptr<backend::Pending> pending;  // nullptr: refused at once, with `refusal`
  Status refusal;
};

struct Prepared::State {
  std::shared_ptr<ProcessGroup::Impl> group;
  Operation operation;  // owns the lists that `request` was made from
  backend::Request request;
};

}  // namespace regroup
