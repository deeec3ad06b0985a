// SPDX-License-Identifier: Apache-2.0
#include "group/process_group.h"

#include <algorithm>
#include <numeric>

#include "group/arguments.h"
#include "group/callbacks.h"
#include "group/lobby.h"

namespace regroup {

using backend::Request;

namespace {

// Against one life: ranks and sizes are those of its backend.
Status make_request(backend::Backend& backend, std::chrono::nanoseconds timeout, const Operation& operation,
                    Request* request) {
  const group::ArgumentContext context{backend.rank(), backend.size(), timeout};
  if (Status status = group::check_arguments(operation, context, request); !status.ok()) return status;
  return request->algorithm.empty() ? Status() : backend.check(*request);
}

Work started(std::shared_ptr<ProcessGroup::Impl> group, backend::Backend& backend, Request request) {
  auto state = std::make_shared<Work::State>();
  state->pending = backend.start(std::move(request));
  state->group = std::move(group);
  return Work(std::move(state));
}

Work refused(Status status) {
  auto state = std::make_shared<Work::State>();
  state->refusal = std::move(status);
  return Work(std::move(state));
}

// Batches may hold sends and receives, which run beside the collectives: they are started and waited for.
Status run_checked(const std::shared_ptr<ProcessGroup::Impl>& group, backend::Backend& backend, Request& request) {
  if (request.collective == Collective::batch && request.members.empty()) return Status();
  if (request.atomic) return group->atomic().run(backend, request);
  if (request.collective != Collective::batch) return backend.run(request);
  return started(group, backend, std::move(request)).wait();
}

Status check_timeout(const char* what, std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout.has_value() || *timeout > std::chrono::nanoseconds(0)) return Status();
  return Status(StatusCode::invalid_argument, std::string(what) + ": the time-out must be positive");
}

Status busy(const char* what) {
  return Status(StatusCode::timeout, std::string(what) + ": another thread is about to begin the group's next life");
}

}  // namespace

Rank ProcessGroup::rank() const { return impl_->backend().rank(); }
Rank ProcessGroup::size() const { return impl_->backend().size(); }
uint64_t ProcessGroup::epoch() const { return impl_->backend().epoch(); }
const std::vector<Rank>& ProcessGroup::members() const { return impl_->life().members; }

Status ProcessGroup::run(const Operation& operation) {
  Request request;
  backend::Backend& backend = impl_->backend();
  if (Status status = make_request(backend, impl_->timeout(), operation, &request); !status.ok()) return status;
  return run_checked(impl_, backend, request);
}

Work ProcessGroup::start(Operation operation) {
  Request request;
  backend::Backend& backend = impl_->backend();
  if (Status status = make_request(backend, impl_->timeout(), operation, &request); !status.ok())
    return refused(std::move(status));
  if (request.atomic) {
    return refused(Status(StatusCode::unsupported,
                          std::string(name(request.collective)) + ": atomic operations cannot be started; run them"));
  }
  if (request.collective == Collective::batch && request.members.empty()) return Work();
  return started(impl_, backend, std::move(request));
}

Result<Prepared> ProcessGroup::prepare(Operation operation) {
  auto state = std::make_shared<Prepared::State>();
  state->operation = std::move(operation);
  state->life = &impl_->life();
  if (Status status = make_request(*state->life->backend, impl_->timeout(), state->operation, &state->request);
      !status.ok())
    return status;
  state->group = impl_;
  return Prepared(std::move(state));
}

Status Prepared::run() {
  const Life& life = state_->group->life();
  if (&life != state_->life) return ProcessGroup(state_->group).run(state_->operation);
  if (state_->request.atomic || state_->request.collective == Collective::batch)
    return ProcessGroup(state_->group).run(state_->operation);
  return life.backend->run(state_->request);
}

// A started operation owns its request: the arguments are known to be right and are only put together again.
Work Prepared::start() { return ProcessGroup(state_->group).start(state_->operation); }

void ProcessGroup::abort(std::string reason) { impl_->backend().abort(reason); }

Status ProcessGroup::set_timeout(std::chrono::nanoseconds timeout) {
  if (timeout <= std::chrono::nanoseconds(0)) {
    return Status(StatusCode::invalid_argument,
                  "set_timeout: " + std::to_string(timeout.count()) + " ns; it must be positive");
  }
  impl_->set_timeout(timeout);
  return Status();
}

std::chrono::nanoseconds ProcessGroup::timeout() const { return impl_->timeout(); }
Status ProcessGroup::last_failure() const { return impl_->backend().last_failure(); }
std::string ProcessGroup::description() const { return impl_->backend().description(); }

const Capabilities& ProcessGroup::capabilities() const {
  static const Capabilities known = regroup::capabilities();
  return known;
}

Result<ProcessGroup> ProcessGroup::subgroup(const std::vector<Rank>& ranks) {
  std::vector<bool> seen(size());
  for (const Rank rank : ranks) {
    if (rank >= size()) {
      return Status(StatusCode::invalid_argument, "subgroup: rank " + std::to_string(rank) +
                                                      " is given, but the group has ranks 0 to " +
                                                      std::to_string(size() - 1));
    }
    if (seen[rank])
      return Status(StatusCode::invalid_argument, "subgroup: rank " + std::to_string(rank) + " is given twice");
    seen[rank] = true;
  }
  if (!seen[rank()]) {
    return Status(StatusCode::invalid_argument,
                  "subgroup: this rank, " + std::to_string(rank()) + ", is not in the list; only members call it");
  }
  const Life& life = impl_->life();
  auto backend = life.backend->subgroup(ranks, impl_->timeout());
  if (!backend.ok()) return backend.status();
  std::vector<Rank> members;
  for (const Rank rank : ranks) members.push_back(life.members[rank]);
  return ProcessGroup(std::make_shared<Impl>(Life{std::move(backend).value(), std::move(members)}, impl_->timeout(),
                                             Origin{impl_->origin().meet, nullptr, ""}));
}

Result<ProcessGroup> ProcessGroup::split(std::optional<int64_t> color, int64_t key) {
  const std::vector<int64_t> mine = {color.has_value(), color.value_or(0), key};
  std::vector<int64_t> all(3 * size());
  if (Status status = run(all_gather(from(mine), into(all))); !status.ok()) return status;
  if (!color.has_value()) return ProcessGroup();
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (all[3 * rank] != 0 && all[3 * rank + 1] == *color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](Rank a, Rank b) { return all[3 * a + 2] < all[3 * b + 2]; });
  return subgroup(ranks);
}

// --- outliving members

Result<Agreed> ProcessGroup::agree(uint64_t value, std::optional<std::chrono::nanoseconds> timeout) {
  if (Status status = check_timeout("agree", timeout); !status.ok()) return status;
  return impl_->backend().agree(value, timeout.value_or(impl_->timeout()));
}

Status ProcessGroup::shrink(ShrinkOptions options) {
  if (Status status = check_timeout("shrink", options.timeout); !status.ok()) return status;
  const auto timeout = options.timeout.value_or(impl_->timeout());
  const std::unique_lock turn(impl_->rebirth(), timeout);
  if (!turn.owns_lock()) return busy("shrink");
  const Life& life = impl_->life();
  Result<backend::Reborn> reborn = life.backend->shrink(options.quorum, timeout);
  if (!reborn.ok()) return reborn.status();
  std::vector<Rank> members;
  for (const Rank rank : reborn->survivors) members.push_back(life.members[rank]);
  impl_->begin({std::move(reborn->backend), std::move(members)});
  life.backend->close(Status(StatusCode::aborted, "the group was shrunk", {}, life.backend->epoch()));
  return Status();
}

Status ProcessGroup::leave(std::optional<std::chrono::nanoseconds> timeout) {
  if (Status status = check_timeout("leave", timeout); !status.ok()) return status;
  return impl_->backend().leave(timeout.value_or(impl_->timeout()));
}

Status ProcessGroup::reconfigure(const Membership& membership) {
  if (Status status = check_timeout("reconfigure", membership.timeout); !status.ok()) return status;
  if (membership.rank >= membership.size) {
    return Status(StatusCode::invalid_argument, "reconfigure: rank " + std::to_string(membership.rank) +
                                                    " of a group of " + std::to_string(membership.size) +
                                                    "; ranks are 0 to size - 1");
  }
  if (membership.name.empty()) {
    return Status(StatusCode::invalid_argument,
                  "reconfigure: Membership::name is empty; it takes a name that no other meeting in the store has");
  }
  Membership whole = membership;
  whole.timeout = membership.timeout.value_or(impl_->timeout());
  const std::unique_lock turn(impl_->rebirth(), *whole.timeout);
  if (!turn.owns_lock()) return busy("reconfigure");
  backend::Backend& last = impl_->backend();
  last.close(Status(StatusCode::aborted, "the group is being reconfigured", {}, last.epoch()));
  Result<Life> next = impl_->origin().meet(whole, last.epoch());
  if (!next.ok()) return next.status();
  impl_->begin(std::move(next).value());
  return Status();
}

Status ProcessGroup::grow(std::optional<std::chrono::nanoseconds> timeout) {
  if (Status status = check_timeout("grow", timeout); !status.ok()) return status;
  const Origin& origin = impl_->origin();
  if (origin.store == nullptr) {
    return Status(StatusCode::unsupported, "grow: only a group that was joined has a store in which newcomers ask");
  }
  const auto limit = timeout.value_or(impl_->timeout());
  const base::Time deadline = base::deadline_after(limit);
  const std::unique_lock turn(impl_->rebirth(), limit);
  if (!turn.owns_lock()) return busy("grow");
  backend::Backend& last = impl_->backend();

  // Rank 0 looks who has asked, and tells the others: so many newcomers, or that it could not look.
  group::Lobby lobby(*origin.store, origin.name);
  Result<uint64_t> waiting = uint64_t{0};
  int64_t newcomers = 0;
  if (last.rank() == 0) {
    waiting = lobby.waiting();
    newcomers = waiting.ok() ? static_cast<int64_t>(*waiting) : -1;
  }
  if (Status told = run(broadcast(in_place(&newcomers, 1), 0, {.timeout = limit})); !told.ok()) return told;
  if (newcomers < 0) {
    return last.rank() == 0 ? waiting.status()
                            : Status(StatusCode::unsupported, "grow: rank 0 does not reach the store", {0}, epoch());
  }
  if (newcomers == 0) return Status();

  Membership next;
  next.rank = last.rank();
  next.size = last.size() + static_cast<Rank>(newcomers);
  next.name = lobby.meeting_after(last.epoch());
  Status invited;
  if (last.rank() == 0) invited = lobby.invite(next.name, last.size(), static_cast<Rank>(newcomers));
  // A newcomer may have given up meanwhile. So the life at hand stays until all have met in the next.
  next.timeout = (deadline - base::Clock::now()) / 2;
  if (invited.ok() && *next.timeout <= base::Duration(0))
    invited = Status(StatusCode::timeout, "grow: no time is left", {}, epoch());
  Result<Life> met = invited.ok() ? origin.meet(next, last.epoch()) : Result<Life>(invited);
  const base::Duration left = deadline - base::Clock::now();
  Result<Agreed> all = last.agree(met.ok() ? 1 : 0, std::max<base::Duration>(left, std::chrono::milliseconds(1)));
  if (!all.ok()) return all.status();
  if (all->value == 0) {
    return Status(StatusCode::unsupported,
                  "grow: not all met: " + (met.ok() ? std::string("another member failed to") : met.status().message()),
                  {}, epoch());
  }
  impl_->begin(std::move(met).value());
  last.close(Status(StatusCode::aborted, "the group has grown", {}, last.epoch()));
  return Status();
}

// --- Work

Status Work::wait() {
  if (state_ == nullptr) return Status();
  if (state_->pending == nullptr) return state_->refusal;
  state_->pending->wait(base::Time::max());
  return state_->pending->status();
}

Status Work::wait(std::chrono::nanoseconds timeout) {
  if (state_ == nullptr) return Status();
  if (state_->pending == nullptr) return state_->refusal;
  if (state_->pending->wait(base::deadline_after(timeout))) return state_->pending->status();
  return Status(StatusCode::timeout,
                "the operation goes on after a wait of " +
                    std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()) + " ms");
}

bool Work::done() const { return state_ == nullptr || state_->pending == nullptr || state_->pending->done(); }

Status Work::status() const {
  if (state_ == nullptr) return Status();
  return state_->pending == nullptr ? state_->refusal : state_->pending->status();
}

void Work::then(std::function<void(Status)> callback) {
  // Handed on, not copied: what the callback holds is let go of on the callback thread.
  auto held = std::make_shared<std::function<void(Status)>>(std::move(callback));
  auto run = [held = std::move(held)](Status status) mutable {
    group::run_on_callback_thread([held = std::move(held), status = std::move(status)] { (*held)(status); });
  };
  if (state_ == nullptr || state_->pending == nullptr) return run(status());
  state_->pending->when_done(std::move(run));
}

void Work::abort() {
  if (state_ != nullptr && state_->group != nullptr) state_->group->backend().abort("Work::abort");
}

}  // namespace regroup
