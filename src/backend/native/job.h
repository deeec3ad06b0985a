// SPDX-License-Identifier: Apache-2.0
// One request on its way through the native backend.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "transport/transport.h"

namespace regroup::backend::native {

class NativeBackend;

// Owned by the caller's stack (`run`) or shared by the backend and the Pending's holders (`start`). The fields up to
// the line belong to the driver once the job was handed to it; `done_` and what follows are guarded by the backend's
// mutex.
class Job final : public Pending {
 public:
  enum class Phase : uint8_t {
    queued,
    eager,
    gathering,  // waiting until all have begun and called the same
    running,
    announcing,          // over a module: ranks of other hosts are told what was called
    carried,             // the library runs it
    planned_by_library,  // a plan runs over the library's messages
    conflicted,          // ranks called different things; waiting for the other's signature, for the message
    withdrawn,           // a peer took its memory back or went on; waiting to hear why
  };

  Job(NativeBackend& backend, const Request& request) : backend_(backend), request_(&request) {}
  Job(NativeBackend& backend, Request&& request) : backend_(backend), owned_(std::move(request)), request_(&owned_) {}

  const Request& request() const { return *request_; }
  bool collective() const { return !point_to_point(request_->collective); }

  // --- Pending
  bool wait(base::Time until) override;
  bool done() const override { return done_.load(std::memory_order_acquire); }
  Status status() const override;
  void when_done(std::function<void(Status)> callback) override;

 private:
  friend class NativeBackend;

  NativeBackend& backend_;
  Request owned_;
  const Request* request_;
  std::shared_ptr<Job> self_;  // while the backend works on a started job

  Phase phase_ = Phase::queued;
  uint64_t sequence_ = 0;  // collectives
  bool timed_ = false;     // whether `began_` and `deadline_` are set: the clock is read only when it has to be
  base::Time began_{};
  base::Time deadline_{};
  base::Time next_question_{};  // when to ask the others next where they are
  base::Time asked_{};          // when they were asked of whose answers the error will tell
  base::Duration question_pause_{};
  transport::Signature signature_;
  transport::Conflict conflict_;
  base::Time conflict_until_{};  // until when to wait for an explanation of what has failed
  // send and receive
  transport::Message message_;
  bool posted_ = false;
  uint64_t pair_sequence_ = 0;
  // a batch that holds sends and receives: its parts, and what they belong to
  std::vector<std::shared_ptr<Job>> parts_;
  Job* whole_ = nullptr;
  size_t parts_left_ = 0;
  // ---
  std::atomic<bool> done_ = false;
  Status status_;
  std::vector<std::function<void(Status)>> callbacks_;
};

// Jobs in the order of their calls. It keeps the memory that it grew to: a std::deque takes a block anew again and
// again.
class JobQueue {
 public:
  JobQueue() { jobs_.reserve(kUsual); }
  bool empty() const { return first_ == jobs_.size(); }
  Job* front() const { return jobs_[first_]; }
  auto begin() const { return jobs_.begin() + static_cast<ptrdiff_t>(first_); }
  auto end() const { return jobs_.end(); }
  void push_back(Job* job) { jobs_.push_back(job); }
  void pop_front() {
    ++first_;
    // Closing the gap moves no more jobs than have gone since the last time.
    if (2 * first_ < jobs_.size()) return;
    jobs_.erase(jobs_.begin(), begin());
    first_ = 0;
  }

 private:
  static constexpr size_t kUsual = 16;  // under way at once
  std::vector<Job*> jobs_;
  size_t first_ = 0;
};

}  // namespace regroup::backend::native
