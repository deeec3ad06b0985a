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
#include "regroup/survival.h"

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

class Backend;

// The next life of a group, as one of its members sees it.
struct Reborn {
  std::shared_ptr<Backend> backend;
  std::vector<Rank> survivors;  // for each rank of the next life its rank in the one before
};

// Thread safe. Destruction leaves the group; operations that are in flight end with `aborted`.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // "native over shm"
  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  virtual uint64_t epoch() const = 0;  // of this life; rises with each

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

  // The same answer on every member that gets one, though members fail meanwhile; also in a broken group.
  virtual Result<Agreed> agree(uint64_t value, std::chrono::nanoseconds timeout) = 0;
  // The same about an operation that has just ended: whether it ended well for all. Whoever cannot learn it leaves the
  // group.
  virtual Result<Agreed> agree_outcome(bool ended_well, std::chrono::nanoseconds timeout) = 0;
  // The survivors meet anew, without a store. Ends what is under way.
  virtual Result<Reborn> shrink(Quorum quorum, std::chrono::nanoseconds timeout) = 0;
  // This member goes while the others shrink; left in any case.
  virtual Status leave(std::chrono::nanoseconds timeout) = 0;
  // This member goes on to a next life: what is under way ends with `why`, connections and memory are given back.
  // The object stays, and refuses every call. Any number of times.
  virtual void close(const Status& why) = 0;
};

}  // namespace regroup::backend
