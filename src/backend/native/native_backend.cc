// SPDX-License-Identifier: Apache-2.0
// Calls into the backend: handing jobs to the driver, waiting, driving where nobody else does.
#include "backend/native/native_backend.h"

#include <unistd.h>

#include <cstring>

#include "backend/native/assembly.h"
#include "base/thread.h"

namespace regroup::backend::native {

namespace {

constexpr size_t kMostOutstanding = 1 << 16;  // operations started and not done
// How long a backend that goes waits for operations that were started and are still running.
constexpr base::Duration kLinger = std::chrono::seconds(1);
// The others of the next life wait for this member there; who is cut off takes nothing anyway.
constexpr base::Duration kMovingOn = std::chrono::milliseconds(20);

}  // namespace

NativeBackend::NativeBackend(const NativeOptions& options)
    : options_(options),
      attendance_(options.size),
      plans_(GroupFacts()),
      stream_ended_(options.size),
      left_(options.size),
      moved_on_(options.size) {
  facts_.rank = options.rank;
  facts_.size = options.size;
  facts_.tuning = options.tuning;
  assembly_ = std::make_unique<Assembly>(facts_);
}

// The last holder has let go.
void NativeBackend::let_go(NativeBackend* backend) {
  if (backend->inherited()) return;
  if (backend->progress_.get_id() == std::this_thread::get_id()) {
    // What an operation owned, or a callback held, was the last to hold the group; the thread that dropped it is to be
    // waited for.
    std::thread other;
    if (base::start_thread(&other, [backend] { delete backend; }).ok()) other.detach();
    return;
  }
  delete backend;
}

Status NativeBackend::inherited_status() {
  return Status(StatusCode::unsupported, "the group belongs to the process from which this one was forked");
}

NativeBackend::~NativeBackend() {
  {
    std::unique_lock lock(mutex_);
    leaving_ = true;
    const base::Time until = base::deadline_after(kLinger);
    while (outstanding_ > 0 && broken_.ok() && base::Clock::now() < until) changed_.wait_until(lock, until);
  }
  end(Status(StatusCode::aborted, "rank " + std::to_string(facts_.rank) + " left the group while operations ran",
             {facts_.rank}, facts_.epoch, finished_.load(std::memory_order_relaxed) + 1),
      false);
}

void NativeBackend::end(const Status& why, bool moves_on) {
  if (inherited()) return;
  Status left_early;
  {
    std::unique_lock lock(mutex_);
    if (closed_) return;
    closing_ = true;
    if (broken_.ok()) {
      broken_ = why;
      // The others may wait for this rank in a collective that it had begun.
      if (issued_ > finished_.load(std::memory_order_relaxed)) left_early = broken_;
    }
    alarm_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  if (!left_early.ok() && control_ != nullptr) tell_status(left_early, left_early.sequence());
  waker_.ring();
  std::thread progress;
  {
    std::lock_guard lock(mutex_);
    progress.swap(progress_);
  }
  if (progress.joinable()) progress.join();
  {
    // Whoever drives sees the alarm and ends; what waits has nobody to drive it.
    std::unique_lock lock(mutex_);
    const base::Time until = base::deadline_after(kLinger);
    while (driving_ && !closed_ && base::Clock::now() < until) changed_.wait_until(lock, until);
    // A thread that drives and does not come back, in somebody's callback: the destructor, which nobody overtakes,
    // tidies up.
    if (driving_) return;
    driving_ = closed_ = true;
  }
  if (!idle() || has_incoming_.load()) {
    adopt();
    fail_all(broken_);
  }
  close_library();
  if (freed_ticket_ != 0) transport::shm::SegmentRegister::of_process().unsubscribe(freed_ticket_);
  freed_ticket_ = 0;
  if (control_ != nullptr) {
    // How far this rank came: what it has begun, the others can still finish without it.
    tell_progress();
    dismiss_assembly();
    moves_on_ = moves_on;
    if (moves_on) tell(net::ControlKind::moved_on, {});
    control_->leave(moves_on ? kMovingOn : kLinger);
  }
  team_.reset();
  transport_ = nullptr;
  mixed_ = nullptr;
  tcp_ = nullptr;
  shm_ = nullptr;
  plans_ = PlanCache(facts_);
}

Status NativeBackend::check(const Request& request) const {
  return library_ == nullptr ? check_algorithm(request, facts_) : check_for_library(request);
}

Status NativeBackend::refusal_locked() {
  if (!broken_.ok()) return broken_;
  if (closing_) return Status(StatusCode::aborted, "the group was left");
  if (outstanding_ >= kMostOutstanding) {
    return Status(StatusCode::resource_exhausted,
                  "more than " + std::to_string(kMostOutstanding) + " operations are under way");
  }
  return Status();
}

// Somebody else may want to go on; or wait for the last to stop.
void NativeBackend::stop_driving_locked() {
  driving_ = false;
  if (outstanding_ > 0 || closing_) changed_.notify_all();
}

void NativeBackend::enqueue_locked(Job& job) {
  ++outstanding_;
  if (job.collective()) job.sequence_ = ++issued_;
  incoming_.push_back(&job);
  has_incoming_.store(true, std::memory_order_release);
}

// A batch that holds sends and receives becomes a whole with parts: they, and one batch of the collectives.
void NativeBackend::split_batch(Job& job) {
  Request collectives;
  collectives.collective = Collective::batch;
  collectives.timeout = job.request().timeout;
  collectives.label = job.request().label;
  for (Request& member : job.owned_.members) {
    if (!point_to_point(member.collective)) {
      collectives.members.push_back(std::move(member));
      continue;
    }
    member.timeout = job.request().timeout;
    job.parts_.push_back(std::make_shared<Job>(*this, std::move(member)));
  }
  if (!collectives.members.empty()) job.parts_.push_back(std::make_shared<Job>(*this, std::move(collectives)));
  job.parts_left_ = job.parts_.size();
  for (const auto& part : job.parts_) {
    part->whole_ = &job;
    part->self_ = part;
  }
}

Status NativeBackend::run(const Request& request) {
  if (inherited()) return inherited_status();
  std::unique_lock lock(mutex_);
  if (Status refused = refusal_locked(); !refused.ok()) return refused;
  if (all_local_ && !driving_ && outstanding_ == 0 && eager(request)) return run_eager(request, lock);
  Job job(*this, request);
  enqueue_locked(job);
  wait_for(job, base::Time::max(), lock);
  return job.status_;
}

// The shortest way for the commonest small call: nothing else is under way, so this thread drives, and where all peers
// come while it spins, no job is made at all, and the lock is held all the time: for some 100 µs at most. Otherwise a
// job takes over where this left off.
Status NativeBackend::run_eager(const Request& request, std::unique_lock<std::mutex>& lock) {
  const uint64_t sequence = ++issued_;
  if (spin_eager(request, sequence)) {
    finished_.store(sequence, std::memory_order_relaxed);
    return Status();
  }
  driving_ = true;
  ++outstanding_;
  lock.unlock();
  Job job(*this, request);
  job.sequence_ = sequence;
  job.signature_ = begun_signature_;
  job.phase_ = Job::Phase::eager;
  collectives_.push_back(&job);
  drive(&job, base::Time::max());
  lock.lock();
  stop_driving_locked();
  return job.status_;
}

std::shared_ptr<Pending> NativeBackend::start(Request request) {
  auto job = std::make_shared<Job>(*this, std::move(request));
  const auto refuse = [&](Status why) {
    job->status_ = std::move(why);
    job->done_ = true;
    return job;
  };
  if (inherited()) return refuse(inherited_status());
  std::unique_lock lock(mutex_);
  if (Status refused = refusal_locked(); !refused.ok()) return refuse(std::move(refused));
  job->self_ = job;
  bool pairs = false;
  for (const Request& member : job->request().members) pairs |= point_to_point(member.collective);
  if (pairs) {
    split_batch(*job);
    ++outstanding_;
    for (const auto& part : job->parts_) enqueue_locked(*part);
  } else {
    enqueue_locked(*job);
  }
  if (all_local_ && !driving_ && outstanding_ == 1 && !pairs && eager(job->request())) {
    // Of few bytes: shown to the others at once, not when a thread has been woken; and if they are here, it is over.
    driving_ = true;
    lock.unlock();
    adopt();
    (void)turn();
    lock.lock();
    stop_driving_locked();
    if (outstanding_ == 0) return job;
  }
  ensure_progress_thread_locked();
  const bool driven = driving_;
  // Who is woken takes the lock first of all.
  lock.unlock();
  if (driven) waker_.ring();
  changed_.notify_all();
  return job;
}

// Waits, driving the group unless another thread does. True if the job is done.
bool NativeBackend::wait_for(Job& job, base::Time until, std::unique_lock<std::mutex>& lock) {
  while (!job.done_.load(std::memory_order_relaxed)) {
    if (!driving_) {
      driving_ = true;
      lock.unlock();
      drive(&job, until);
      lock.lock();
      stop_driving_locked();
      if (until != base::Time::max() && base::Clock::now() >= until) break;
      continue;
    }
    waiters_.fetch_add(1, std::memory_order_relaxed);
    waker_.ring();
    const base::Time soon = base::deadline_after(std::chrono::seconds(1));
    changed_.wait_until(lock, std::min(until, soon));
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    if (until != base::Time::max() && base::Clock::now() >= until) break;
  }
  return job.done_.load(std::memory_order_relaxed);
}

// The job has ended. On the driver's thread, or with no driver.
void NativeBackend::finish(Job& job, Status status) {
  std::vector<std::function<void(Status)>> callbacks;
  Job* whole = nullptr;
  Status whole_status;
  std::shared_ptr<Job> keep = std::move(job.self_);
  {
    std::lock_guard lock(mutex_);
    job.status_ = std::move(status);
    callbacks.swap(job.callbacks_);
    --outstanding_;
    if (job.whole_ != nullptr) {
      if (job.whole_->status_.ok()) job.whole_->status_ = job.status_;
      if (--job.whole_->parts_left_ == 0) {
        whole = job.whole_;
        whole_status = whole->status_;
      }
    }
    status = job.status_;
    job.done_.store(true, std::memory_order_release);
    // Not for the progress thread's sake: there is nothing for it to do.
    if (waiters_.load(std::memory_order_relaxed) > 0 || leaving_) changed_.notify_all();
    // From here on a job on its caller's stack may be gone.
  }
  for (auto& callback : callbacks) callback(status);
  if (whole != nullptr) finish(*whole, whole_status);
}

void NativeBackend::ensure_progress_thread_locked() {
  // Where there is no thread to be had, those who wait drive.
  if (!progress_.joinable()) (void)base::start_thread(&progress_, [this] { progress_loop(); });
}

// Drives while there are started operations and nobody waits; sleeps otherwise.
void NativeBackend::progress_loop() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (driving_ || outstanding_ == 0 || waiters_.load(std::memory_order_relaxed) > 0) {
      changed_.wait_for(lock, std::chrono::seconds(1));
      continue;
    }
    driving_ = true;
    lock.unlock();
    drive(nullptr, base::Time::max());
    lock.lock();
    stop_driving_locked();
  }
}

void NativeBackend::abort(const std::string& reason) {
  if (inherited()) return;
  break_group(Status(StatusCode::aborted, "rank " + std::to_string(facts_.rank) + " aborted the group: " + reason,
                     {facts_.rank}, facts_.epoch, finished_.load() + 1),
              true);
}

Status NativeBackend::last_failure() const {
  if (inherited()) return inherited_status();
  std::lock_guard lock(mutex_);
  return broken_;
}

// --- Job

bool Job::wait(base::Time until) {
  if (done() || backend_.inherited()) return true;
  std::unique_lock lock(backend_.mutex_);
  return backend_.wait_for(*this, until, lock);
}

Status Job::status() const {
  if (done()) return status_;
  return backend_.inherited() ? NativeBackend::inherited_status() : Status();
}

void Job::when_done(std::function<void(Status)> callback) {
  if (!backend_.inherited()) {
    std::lock_guard lock(backend_.mutex_);
    if (!done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(status());
}

}  // namespace regroup::backend::native
