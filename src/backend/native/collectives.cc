// SPDX-License-Identifier: Apache-2.0
// Collectives, one after the other: begin, gather (all have called the same), run the program or the eager path, end.
#include <algorithm>
#include <cstring>

#include "backend/native/native_backend.h"
#include "base/fence.h"
#include "base/hash.h"

namespace regroup::backend::native {

using transport::Gathering;
using Phase = Job::Phase;

namespace {

// How long to wait for the other's signature before a mismatch is reported without it.
constexpr auto kSignatureWait = std::chrono::milliseconds(200);

constexpr uint64_t kAlign = 64;
uint64_t aligned(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

// True if anything was done.
bool NativeBackend::advance_collective() {
  Job& job = *collectives_.front();
  switch (job.phase_) {
    case Phase::queued:
      if (Status status = activate(job); !status.ok()) {
        end_collective(job, std::move(status));
        return true;
      }
      // The fast case: an eager operation whose peers are all here already.
      if (job.phase_ == Phase::eager) (void)advance_collective();
      return true;
    case Phase::eager:
      switch (eager_.advance()) {
        case executor::Eager::Outcome::waiting:
          return false;
        case executor::Eager::Outcome::done:
          if (library_ != nullptr)
            carry(job);
          else
            end_collective(job, Status());
          return true;
        case executor::Eager::Outcome::planned:
          if (Status status = begin_planned(job); !status.ok()) end_collective(job, std::move(status));
          return true;
        case executor::Eager::Outcome::withdrawn:
          job.phase_ = Phase::withdrawn;
          return true;
        case executor::Eager::Outcome::conflict:
          // The lines tell who differs: as for any other operation on one host.
          if (transport_->gathered(&job.conflict_) == Gathering::conflict) conflict_found(job);
          return true;
      }
      return false;
    case Phase::gathering:
      return advance_gathering(job);
    case Phase::running:
      return advance_running(job);
    case Phase::announcing:
      return advance_running(job);
    case Phase::carried:
      return advance_carried(job);
    case Phase::planned_by_library:
      return advance_planned_by_library(job);
    case Phase::conflicted:
      return settle_conflict(job);
    case Phase::withdrawn:
      return false;
  }
  return false;
}

Status NativeBackend::activate(Job& job) {
  const Request& request = job.request();
  begun_ = job.sequence_;
  // Who has left before this operation will not come; the alarm has perhaps been attended to when there was nothing to
  // end.
  if (some_left_.load(std::memory_order_acquire)) alarm_.store(true, std::memory_order_release);
  job.signature_ = begun_signature_ = signature_of(request);
  if (!all_local_) {
    attendance_.began(job.sequence_, job.signature_, base::recent_tick());
    if (Status status = known_to_fail(job.sequence_); !status.ok()) return status;
  }
  if (library_ != nullptr) return begin_announcing(job);
  if (!eager(request)) return begin_planned(job);
  job.phase_ = Phase::eager;
  begin_eager(request, job.sequence_);
  return Status();
}

// Whether the operation that is about to begin has failed already: others told so; or this rank learnt too late that
// ranks disagreed on an earlier one, which had ended well here. Then it ends this one, on all ranks: so that nobody
// goes on in the belief that all is well, and all stay in step.
Status NativeBackend::known_to_fail(uint64_t sequence) {
  Status late;
  {
    std::lock_guard lock(mutex_);
    if (const auto notice = notices_.find(sequence); notice != notices_.end()) {
      Status status = notice->second;
      notices_.erase(notices_.begin(), std::next(notice));
      return status;
    }
    if (late_mismatch_.ok()) return Status();
    late = std::exchange(late_mismatch_, Status());
  }
  Status status(StatusCode::mismatch,
                "rank " + std::to_string(facts_.rank) + " learnt only after it had returned from operation " +
                    std::to_string(late.sequence()) + " that " + late.message(),
                late.ranks(), facts_.epoch, sequence);
  tell_status(status, sequence);
  return status;
}

// Whether the operation is of so few bytes that every rank's input travels with its arrival: a decision from agreed
// facts, or one that each rank's line tells.
bool NativeBackend::eager(const Request& request) const {
  if (library_ != nullptr) return false;
  const uint64_t limit = differs_by_pair(request) ? transport_->pairs_limit() : transport_->eager_limit();
  return takes_eager_path(request, facts_.rank, facts_.size, limit);
}

// Expects begun_signature_ to be that of the request.
void NativeBackend::begin_eager(const Request& request, uint64_t sequence) {
  bindings_.resize(1);
  bindings_[0] = bind(request, nullptr, 0, facts_.size);
  executor::EagerCall call;
  call.collective = request.collective;
  call.rank = facts_.rank;
  call.size = facts_.size;
  call.root = request.root;
  call.part_bytes = request.count * size_of(request.type);
  call.part_elements = request.counts.empty() ? nullptr : request.counts.data();
  call.by_pair = differs_by_pair(request);
  call.may_lend = !request.in_place;
  call.binding = bindings_.data();
  eager_.start(call, begun_signature_, fingerprint(begun_signature_), sequence, *transport_);
}

// Begins an eager operation, and finishes it if the others come while this thread spins. False: it goes on as a job.
bool NativeBackend::spin_eager(const Request& request, uint64_t sequence) {
  begun_ = sequence;
  if (some_left_.load(std::memory_order_acquire)) alarm_.store(true, std::memory_order_release);
  begun_signature_ = signature_of(request);
  begin_eager(request, sequence);
  for (int left = spins(); left > 0; --left) {
    switch (eager_.advance()) {
      case executor::Eager::Outcome::done:
        transport_->end();
        return true;
      case executor::Eager::Outcome::waiting:
        if (alarm_.load(std::memory_order_relaxed)) return false;
        base::spin_hint();
        continue;
      default:
        return false;
    }
  }
  return false;
}

// Copies the input to `to` and binds it there, part by part.
void NativeBackend::move_input_away(const Request& request, executor::Binding& binding, std::byte* to) {
  transport::SpaceMemory& input = binding.memory.spaces[0];
  executor::Team* const team = input.total() >= executor::kTeamOperation ? &*team_ : nullptr;
  if (input.list != nullptr) {
    for (uint32_t part = 0; part < input.parts; ++part) {
      const uint64_t bytes = request.input.list[part].bytes;
      if (bytes > 0) executor::copy_together(team, to, request.input.list[part].data, bytes, false);
      moved_input_.push_back({to, bytes});
      to += bytes;
    }
    return;
  }
  if (input.total() > 0) executor::copy_together(team, to, input.base, input.total(), false);
  input.base = to;
}

// False where there is no memory for scratch.
bool NativeBackend::bind_memory(Job& job, const Plan& plan) {
  const bool is_batch = job.request().collective == Collective::batch;
  const size_t members = is_batch ? job.request().members.size() : 1;
  const auto member = [&](size_t i) -> const Request& { return is_batch ? job.request().members[i] : job.request(); };
  const auto moves = [&](const Request& request) { return request.in_place && !plan.moves_nothing(); };
  const plan::Schedule& schedule = plan.program.schedule();
  const auto scratch_count = [&](size_t i) {
    const uint64_t count = schedule.scratch_count(static_cast<uint16_t>(i));
    return plan.staged == nullptr ? count : std::max(count, plan.staged->program.schedule().scratch_count());
  };

  uint64_t bytes = 0;
  for (size_t i = 0; i < members; ++i) {
    bytes += aligned(scratch_count(i) * size_of(member(i).type));
    if (moves(member(i))) bytes += aligned(member(i).input.total());
  }
  std::byte* scratch = bytes > 0 ? transport_->scratch(bytes) : nullptr;
  if (bytes > 0 && scratch == nullptr) return false;
  bindings_.clear();
  memories_.clear();
  moved_input_.clear();
  for (size_t i = 0; i < members; ++i) {
    const Request& request = member(i);
    const uint64_t count = scratch_count(i);
    bindings_.push_back(bind(request, scratch, count, facts_.size));
    if (scratch == nullptr) continue;
    scratch += aligned(count * size_of(request.type));
    if (!moves(request)) continue;
    move_input_away(request, bindings_.back(), scratch);
    scratch += aligned(request.input.total());
  }
  // Only now, when moved_input_ no longer grows, do its addresses stay.
  const transport::Segment* moved = moved_input_.data();
  for (size_t i = 0; i < members; ++i) {
    transport::SpaceMemory& input = bindings_[i].memory.spaces[0];
    if (scratch != nullptr && input.list != nullptr && moves(member(i))) {
      input.list = moved;
      moved += input.parts;
    }
    memories_.push_back(bindings_[i].memory);
  }
  return true;
}

Status NativeBackend::begin_planned(Job& job) {
  Result<std::shared_ptr<const Plan>> plan = plans_.find(job.request());
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  if (!bind_memory(job, *plan_)) {
    // The others are waiting for this rank by now: it has to tell them.
    Status status(StatusCode::io_error, "no memory for the scratch of " + to_string(job.signature_), {facts_.rank},
                  facts_.epoch, job.sequence_);
    break_group(status, true);
    return status;
  }
  transport::Opening opening;
  opening.sequence = job.sequence_;
  opening.signature = job.signature_;
  if (plan_->one_sided()) opening.members = memories_;
  opening.may_stage = plan_->staged != nullptr;
  gives_.assign(facts_.size, 0);
  takes_.assign(facts_.size, 0);
  if (add_pair_sizes(job.request(), facts_.rank, 1, &gives_, &takes_)) {
    opening.gives = gives_;
    opening.takes = takes_;
  }
  transport_->begin(opening);
  job.phase_ = Phase::gathering;
  return Status();
}

bool NativeBackend::advance_gathering(Job& job) {
  const bool moved = transport_->progress();
  switch (transport_->gathered(&job.conflict_)) {
    case Gathering::waiting:
      return moved;
    case Gathering::complete:
      if (library_ != nullptr) {
        all_local_ ? carry(job) : announce_to_hosts(job);
        return true;
      }
      job.phase_ = Phase::running;
      if (plan_->staged != nullptr && transport_->staging()) plan_ = plan_->staged;
      execution_.start(plan_->program, bindings_, *transport_, job.sequence_, fingerprint(job.signature_), &*team_);
      return true;
    case Gathering::conflict:
      conflict_found(job);
      return true;
    case Gathering::failed:
      // A rank went on: the operation has failed for it, and it said so; its notice is on the way.
      job.phase_ = Phase::withdrawn;
      return true;
  }
  return moved;
}

bool NativeBackend::advance_running(Job& job) {
  const bool moved = transport_->progress();
  switch (execution_.advance()) {
    case executor::Execution::Outcome::waiting: {
      // Frames may tell of a conflict at any time; and where no frame can (two ranks wait for each other), states do.
      if (all_local_) return moved;
      if (transport_->gathered(&job.conflict_) == Gathering::conflict) {
        conflict_found(job);
        return true;
      }
      return compare_states(job) || moved;
    }
    case executor::Execution::Outcome::moved:
      return true;
    case executor::Execution::Outcome::done:
      if (job.phase_ == Phase::announcing)
        announced_to_hosts(job);
      else
        end_collective(job, Status());
      return true;
    case executor::Execution::Outcome::mismatched: {
      const transport::Message& message = execution_.mismatch();
      job.conflict_ = transport::Conflict();
      job.conflict_.differ = {message.peer};
      job.conflict_.first = facts_.rank;
      job.conflict_.second = message.peer;
      job.conflict_.first_signature = job.signature_;
      job.conflict_.second_known = false;
      if (message.other_fingerprint == message.fingerprint) {
        job.conflict_.second_known = true;
        job.conflict_.second_signature = job.signature_;
        job.conflict_.sizes = true;
        job.conflict_.gives = message.other_bytes;
        job.conflict_.takes = message.bytes;
      }
      conflict_found(job);
      return true;
    }
    case executor::Execution::Outcome::lost:
      break_group(
          Status(StatusCode::peer_lost,
                 "rank " + std::to_string(execution_.lost_rank()) + " was lost: its memory can no longer be read",
                 {execution_.lost_rank()}, facts_.epoch, job.sequence_),
          true);
      return true;
    case executor::Execution::Outcome::withdrawn:
      job.phase_ = Phase::withdrawn;
      execution_.cancel();
      return true;
  }
  return moved;
}

// Whether a rank has told that it called something else at this sequence number.
bool NativeBackend::compare_states(Job& job) {
  if (!states_changed_.exchange(false, std::memory_order_acquire)) return false;
  for (Rank rank = 0; rank < facts_.size; ++rank) {
    const auto state = attendance_.of(rank);
    if (rank == facts_.rank || !state.has_value() || state->sequence != job.sequence_ ||
        state->signature == job.signature_)
      continue;
    job.conflict_ = transport::Conflict();
    job.conflict_.differ = {rank};
    job.conflict_.first = facts_.rank;
    job.conflict_.second = rank;
    job.conflict_.first_signature = job.signature_;
    job.conflict_.second_signature = state->signature;
    conflict_found(job);
    return true;
  }
  return false;
}

void NativeBackend::conflict_found(Job& job) {
  job.phase_ = Phase::conflicted;
  job.conflict_until_ = base::deadline_after(kSignatureWait);
  if (!job.conflict_.second_known) {
    uint64_t sequence = job.sequence_;
    std::byte payload[sizeof sequence];
    std::memcpy(payload, &sequence, sizeof sequence);
    control_->send(job.conflict_.second, net::ControlKind::ask, payload);
  }
}

// Ends a mismatch once its message can name both calls, and tells the ranks that cannot see it themselves.
bool NativeBackend::settle_conflict(Job& job) {
  transport::Conflict& conflict = job.conflict_;
  if (!conflict.second_known) {
    const auto state = attendance_.of(conflict.second);
    if (state.has_value() && state->sequence == job.sequence_) {
      conflict.second_signature = state->signature;
      conflict.second_known = true;
    } else if (base::Clock::now() < job.conflict_until_) {
      return false;
    }
  }
  Status status(StatusCode::mismatch, describe_conflict(job, conflict.second_known, conflict.second_signature),
                conflict.differ, facts_.epoch, job.sequence_);
  if (!all_local_) tell_status(status, job.sequence_);
  end_collective(job, std::move(status));
  return true;
}

void NativeBackend::end_collective(Job& job, Status status) {
  const bool begun = job.phase_ != Phase::queued;
  if (!status.ok() && begun) {
    // In this order: peers stop counting what they read before this rank's caller gets its memory back.
    transport_->withdraw();
    if (library_ != nullptr)
      take_back_from_library(job, status);
    else if (job.phase_ == Phase::running || job.phase_ == Phase::conflicted)
      execution_.cancel();
  }
  if (begun) transport_->end();
  plan_ = nullptr;
  if (all_local_) {
    finished_.store(job.sequence_, std::memory_order_relaxed);
  } else {
    // A notice of this operation either is here now, or will find that the operation has ended.
    std::lock_guard lock(mutex_);
    if (const auto notice = notices_.find(job.sequence_); notice != notices_.end()) {
      if (status.ok()) status = notice->second;
      notices_.erase(notice);
    }
    if (status.code() == StatusCode::mismatch) {
      mismatched_.push_back(job.sequence_);
      if (mismatched_.size() > kRememberedMismatches) mismatched_.pop_front();
      late_mismatch_ = Status();  // the caller learns of it by this
    }
    finished_.store(job.sequence_, std::memory_order_relaxed);
  }
  collectives_.pop_front();
  finish(job, std::move(status));
}

}  // namespace regroup::backend::native
