// SPDX-License-Identifier: Apache-2.0
// The seam between a group and what carries out its operations. A backend owns its members' connections, orders and
// runs checked requests, and keeps the promises about deadlines, errors and lent memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/request.h"
#include "base/clock.h"
#include "regroup/status.h"

namespace regroup::backend {

// A started request. Thread safe.
class Pending {
 public:
  virtual ~Pending() = default;
  // Waits until it has ended, or `until`; true if it has ended.
  virtual bool wait(base::Time until) = 0;
  virtual bool done() const = 0;
  // How it ended; ok while it has not.
  virtual Status status() const = 0;
  // Called once, when it has ended, from the thread that ends it (or at once): must not block.
  virtual void when_done(std::function<void(Status)> callback) = 0;
};

// Thread safe. Destruction leaves the group; operations that are in flight end with `aborted`.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // "native over shm"
  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;

  // Whether the request can be served at all; what depends on this rank's arguments alone. Not counted, not sent.
  virtual Status check(const Request& request) const = 0;

  // Runs the request; its memory is lent for the time of the call.
  virtual Status run(const Request& request) = 0;
  // Starts it; it makes progress by itself.
  virtual std::shared_ptr<Pending> start(Request request) = 0;

  virtual void abort(const std::string& reason) = 0;
  virtual Status last_failure() const = 0;

  // A backend for `ranks` of this one, in that order; only they call it, at once, with the same list.
  virtual Result<std::shared_ptr<Backend>> subgroup(const std::vector<Rank>& ranks,
                                                    std::chrono::nanoseconds timeout) = 0;
};

}  // namespace regroup::backend
