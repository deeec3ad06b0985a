// SPDX-License-Identifier: Apache-2.0
// Groups over a module. First all ranks announce what they have called, over the group's own wires: so mismatches,
// late and dead ranks are told as in any group, before the library knows of the operation. Then the library runs it;
// or, where it cannot (or is slower), a plan runs over the library's messages.
#include <cstring>

#include "backend/native/native_backend.h"
#include "backend/native/text.h"
#include "base/hash.h"

namespace regroup::backend::native {

using Phase = Job::Phase;

namespace {

// How long news of a death may take, after the library has told that something failed: it is the better explanation.
constexpr auto kExplanation = std::chrono::milliseconds(300);
// Between two looks at a library whose end of work nobody announces, while ranks wait for long.
constexpr base::Duration kShortPause = std::chrono::microseconds(20);
constexpr base::Duration kLongPause = std::chrono::milliseconds(1);

struct OpenVerdict {
  uint8_t failed = 0;
  char text[255] = {};
};

}  // namespace

// Called once all members have met, before the group is anybody's: its operations go by its own wires until then.
Status NativeBackend::open_library(base::Time deadline, const std::string& address) {
  const auto left = [deadline] {
    return std::max<base::Duration>(deadline - base::Clock::now(), std::chrono::milliseconds(1));
  };
  const auto all_gather = [this, &left](const void* mine, uint64_t bytes, void* all) {
    Request request;
    request.collective = Collective::all_gather;
    request.equal = true;
    request.count = bytes;
    request.timeout = left();
    request.input = {static_cast<std::byte*>(const_cast<void*>(mine)), bytes, nullptr, 1};
    request.output = {static_cast<std::byte*>(all), bytes, nullptr, facts_.size};
    return run(request);
  };
  module::Session::Host host;
  host.rank = facts_.rank;
  host.size = facts_.size;
  host.timeout = left();
  host.address = address;
  host.exchange = [&all_gather](const void* mine, uint64_t bytes, void* all) {
    return all_gather(mine, bytes, all).ok();
  };
  host.wake = [this] { waker_.ring(); };
  auto opened = module::Session::open(options_.library, std::move(host));
  // All or none.
  OpenVerdict mine;
  if (!opened.ok()) {
    mine.failed = 1;
    std::strncpy(mine.text, opened.status().message().c_str(), sizeof mine.text - 1);
  }
  std::vector<OpenVerdict> verdicts(facts_.size);
  if (Status told = all_gather(&mine, sizeof mine, verdicts.data()); !told.ok()) {
    return opened.ok() ? told : opened.status();
  }
  std::vector<Rank> failed;
  for (Rank rank = 0; rank < facts_.size; ++rank) {
    if (verdicts[rank].failed != 0) failed.push_back(rank);
  }
  if (!failed.empty()) {
    OpenVerdict& first = verdicts[failed.front()];
    first.text[sizeof first.text - 1] = '\0';
    return Status(StatusCode::unsupported, list(failed) + ": " + first.text, failed);
  }
  library_ = std::move(opened).value();
  if (library_->module().has_messages()) library_messages_ = std::make_unique<transport::ModuleTransport>(*library_);
  // Over messages there is nothing to be read from a peer's memory.
  facts_.one_sided_everywhere = facts_.one_sided_inside_hosts = false;
  plans_ = PlanCache(facts_);
  description_ = library_->module().name() + " " + library_->module().version() + " (" + description_ + ")";
  return Status();
}

module::Module::Service NativeBackend::service_of(const Request& request) const {
  if (request.collective == Collective::batch || request.reproducible) return {};
  if (!request.algorithm.empty() && request.algorithm != kByLibrary) return {};
  module::Module::Service service = library_->module().service(request.collective, request.type, request.op.kind);
  if (service.slower_than_messages && request.algorithm.empty()) service.served = false;
  return service;
}

// What this rank's arguments alone tell; nothing was sent yet.
Status NativeBackend::check_for_library(const Request& request) const {
  if (request.algorithm == kByLibrary) {
    if (service_of(request).served) return Status();
    return Status(StatusCode::unsupported, std::string(name(request.collective)) + " of " +
                                               std::string(name(request.type)) + ": " + library_->module().name() +
                                               " itself does not have it");
  }
  return check_algorithm(request, facts_);
}

Status NativeBackend::begin_announcing(Job& job) {
  const Request& request = job.request();
  carries_ = service_of(request);
  library_pause_ = kShortPause;
  if (!carries_.served) {
    if (library_messages_ == nullptr) {
      return Status(StatusCode::unsupported,
                    to_string(job.signature_) + ": " + library_->module().name() + " has neither it nor messages", {},
                    facts_.epoch, job.sequence_);
    }
    Result<std::shared_ptr<const Plan>> plan = plans_.find(request);
    if (!plan.ok()) return plan.status();
    plan_ = *plan;
  }
  gives_.assign(facts_.size, 0);
  takes_.assign(facts_.size, 0);
  const bool by_pair = add_pair_sizes(request, facts_.rank, 1, &gives_, &takes_);
  if (all_local_ && !by_pair) {
    job.phase_ = Phase::eager;
    bindings_.resize(1);
    bindings_[0] = {};
    executor::EagerCall call;
    call.collective = Collective::barrier;
    call.rank = facts_.rank;
    call.size = facts_.size;
    call.binding = bindings_.data();
    eager_.start(call, job.signature_, fingerprint(job.signature_), job.sequence_, *transport_);
    return Status();
  }
  transport::Opening opening;
  opening.sequence = job.sequence_;
  opening.signature = job.signature_;
  if (by_pair) {
    opening.gives = gives_;
    opening.takes = takes_;
  }
  transport_->begin(opening);
  job.phase_ = Phase::gathering;
  announces_sizes_ = by_pair;
  return Status();
}

// The ranks of this host have called the same; those of others have to be asked by messages.
void NativeBackend::announce_to_hosts(Job& job) {
  Request request;
  if (announces_sizes_) {
    announced_.assign(facts_.size, 0);
    request.collective = Collective::all_to_all;
    request.algorithm = "linear_shift";
    request.type = DataType::uint64;
    request.equal = true;
    request.count = 1;
    request.input = {reinterpret_cast<std::byte*>(gives_.data()), sizeof(uint64_t), nullptr, facts_.size};
    request.output = {reinterpret_cast<std::byte*>(announced_.data()), sizeof(uint64_t), nullptr, facts_.size};
  } else {
    request.algorithm = "dissemination";
  }
  Result<std::shared_ptr<const Plan>> plan = plans_.find(request);
  REGROUP_ASSERT(plan.ok());
  announcement_ = *plan;
  bindings_.resize(1);
  bindings_[0] = bind(request, nullptr, 0, facts_.size);
  job.phase_ = Phase::announcing;
  execution_.start(announcement_->program, bindings_, *transport_, job.sequence_, fingerprint(job.signature_));
}

void NativeBackend::announced_to_hosts(Job& job) {
  for (Rank rank = 0; announces_sizes_ && rank < facts_.size; ++rank) {
    if (announced_[rank] == takes_[rank]) continue;
    job.conflict_ = transport::Conflict();
    job.conflict_.differ = {rank};
    job.conflict_.first = rank;
    job.conflict_.second = facts_.rank;
    job.conflict_.first_signature = job.conflict_.second_signature = job.signature_;
    job.conflict_.sizes = true;
    job.conflict_.gives = announced_[rank];
    job.conflict_.takes = takes_[rank];
    conflict_found(job);
    return;
  }
  carry(job);
}

// All ranks have called the same: the library's turn.
void NativeBackend::carry(Job& job) {
  const Request& request = job.request();
  if (!carries_.served) {
    if (!bind_memory(job, *plan_)) {
      return break_group(Status(StatusCode::io_error, "no memory for the scratch of " + to_string(job.signature_),
                                {facts_.rank}, facts_.epoch, job.sequence_),
                         true);
    }
    job.phase_ = Phase::planned_by_library;
    execution_.start(plan_->program, bindings_, *library_messages_, job.sequence_, fingerprint(job.signature_),
                     &*team_);
    return;
  }
  job.phase_ = Phase::carried;
  const regroup_call& call = library_call_.make(request, carries_, facts_.size);
  switch (library_->start(call, &carried_)) {
    case module::Progress::failed:
      carried_ = nullptr;
      return library_failed(job);
    default:
      return;  // it is tested at the next turn
  }
}

bool NativeBackend::advance_carried(Job& job) {
  if (job.conflict_until_ != base::Time()) return explain_failure(job);
  switch (library_->test(carried_)) {
    case module::Progress::pending:
      return false;
    case module::Progress::done:
      carried_ = nullptr;
      library_call_.unpack();
      end_collective(job, Status());
      return true;
    case module::Progress::failed:
      carried_ = nullptr;
      library_failed(job);
      return true;
  }
  return false;
}

bool NativeBackend::advance_planned_by_library(Job& job) {
  if (job.conflict_until_ != base::Time()) return explain_failure(job);
  const bool moved = library_messages_->progress();
  const executor::Execution::Outcome outcome = execution_.advance();
  if (library_messages_->failed()) {
    library_failed(job);
    return true;
  }
  if (outcome == executor::Execution::Outcome::done) {
    end_collective(job, Status());
    return true;
  }
  return moved || outcome == executor::Execution::Outcome::moved;
}

// A library tells that a connection is gone; the group's own wires tell, perhaps a moment later, whose, and why.
void NativeBackend::library_failed(Job& job) { job.conflict_until_ = base::deadline_after(kExplanation); }

bool NativeBackend::explain_failure(Job& job) {
  if (base::Clock::now() < job.conflict_until_) return false;
  break_group(Status(StatusCode::io_error, library_->module().name() + " failed: " + library_->failure(), {},
                     facts_.epoch, job.sequence_),
              true);
  return true;
}

// Before an operation ends with an error: the library lets go of the memory, as far as it can.
void NativeBackend::take_back_from_library(Job& job, const Status& status) {
  if (breaks_group(status.code()) && !library_aborted_) {
    library_aborted_ = true;
    library_->abort();
  }
  if (job.phase_ == Phase::planned_by_library || job.phase_ == Phase::announcing || job.phase_ == Phase::conflicted)
    execution_.cancel();
  if (carried_ != nullptr) (void)library_->cancel(carried_);
  carried_ = nullptr;
}

void NativeBackend::close_library() {
  if (library_ == nullptr) return;
  if (!broken_.ok() && !library_aborted_ && breaks_group(broken_.code())) library_->abort();
  library_messages_ = nullptr;
  library_ = nullptr;
}

// How long the driver may sleep: as long as it likes where a thread of the library rings.
base::Time NativeBackend::look_at_library_again(base::Time until) {
  const Job* job = collectives_.empty() ? nullptr : collectives_.front();
  if (library_ == nullptr || job == nullptr) return until;
  const bool in_library = job->phase_ == Phase::carried || job->phase_ == Phase::planned_by_library;
  if (!in_library) return until;
  if (job->conflict_until_ != base::Time()) return std::min(until, job->conflict_until_);
  if (library_->module().wakes()) return until;
  const base::Time again = base::Clock::now() + library_pause_;
  library_pause_ = std::min(2 * library_pause_, kLongPause);
  return std::min(until, again);
}

}  // namespace regroup::backend::native
