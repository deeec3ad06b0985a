// SPDX-License-Identifier: Apache-2.0
// What goes wrong, and who is to blame: what the control channel tells, deadlines, lost and leaving ranks.
//
// heard() and closed() run on the control channel's service thread, abort() and with it break_group() on any; the rest
// on the driver's.
#include <algorithm>
#include <cstring>

#include "backend/native/native_backend.h"
#include "backend/native/payload.h"
#include "backend/native/text.h"

namespace regroup::backend::native {

using net::ControlKind;
using Phase = Job::Phase;

namespace {

// Of an operation that is about to fail: what has arrived takes no more to be used.
constexpr int kLastTurns = 10'000;

// --- what control frames carry; fixed little layouts, checked on arrival

std::vector<std::byte> pack(const Status& status, uint64_t sequence) {
  std::vector<std::byte> payload;
  put(&payload, sequence);
  put(&payload, static_cast<uint8_t>(status.code()));
  const uint32_t ranks = static_cast<uint32_t>(std::min<size_t>(status.ranks().size(), 256));
  put(&payload, ranks);
  for (uint32_t i = 0; i < ranks; ++i) put(&payload, status.ranks()[i]);
  const size_t room = net::Control::kMaxPayload - payload.size();
  for (const char c : status.message().substr(0, room)) payload.push_back(static_cast<std::byte>(c));
  return payload;
}

bool unpack(std::span<const std::byte> payload, Rank size, uint64_t epoch, Status* status, uint64_t* sequence) {
  uint8_t code = 0;
  uint32_t count = 0;
  if (!take(&payload, sequence) || !take(&payload, &code) || !take(&payload, &count) || count > 256) return false;
  if (code == 0 || code > static_cast<uint8_t>(StatusCode::internal)) return false;
  std::vector<Rank> ranks(count);
  for (Rank& rank : ranks) {
    if (!take(&payload, &rank) || rank >= size) return false;
  }
  const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
  *status = Status(static_cast<StatusCode>(code), text, std::move(ranks), epoch, *sequence);
  return true;
}

std::string how(net::Ending ending) {
  switch (ending) {
    case net::Ending::process_ended:
      return "its process has ended";
    case net::Ending::host_silent:
      return "its host does not answer";
    default:
      return "its control connection cannot be used";
  }
}

std::string milliseconds(base::Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()) + " ms";
}

}  // namespace

void NativeBackend::heard(Rank from, ControlKind kind, std::span<const std::byte> payload, base::Fd descriptor) {
  switch (kind) {
    case ControlKind::ask: {
      uint64_t sequence = 0;
      if (take(&payload, &sequence)) tell_state(from, sequence);
      return;
    }
    case ControlKind::state: {
      membership::State state;
      int64_t age = 0;  // nanoseconds: clocks of hosts do not compare
      if (!take(&payload, &state.sequence) || !take(&payload, &state.signature) || !take(&payload, &age)) return;
      const base::Time now = base::Clock::now();
      state.began = now - base::Duration(std::clamp<int64_t>(age, 0, now.time_since_epoch().count()));
      attendance_.heard(from, state, now);
      states_changed_.store(true, std::memory_order_release);
      waker_.ring();
      return;
    }
    case ControlKind::notice: {
      Status status;
      uint64_t sequence = 0;
      if (!unpack(payload, facts_.size, facts_.epoch, &status, &sequence)) return;
      if (breaks_group(status.code())) return break_group(status, false);
      note_mismatch(sequence, status);
      waker_.ring();
      return;
    }
    case ControlKind::descriptor_wanted: {
      uint64_t segment = 0;
      if (!take(&payload, &segment)) return;
      const base::Fd found = transport::shm::SegmentRegister::of_process().duplicate(segment);
      std::vector<std::byte> answer;
      put(&answer, segment);
      put(&answer, static_cast<uint8_t>(found.valid()));
      control_->send(from, ControlKind::descriptor, answer, found.get());
      return;
    }
    case ControlKind::descriptor: {
      uint64_t segment = 0;
      uint8_t exists = 1;
      if (!take(&payload, &segment) || shm_ == nullptr) return;
      (void)take(&payload, &exists);
      shm_->offer(from, segment, exists != 0, std::move(descriptor));
      return;
    }
    case ControlKind::segment_freed: {
      uint64_t segment = 0;
      if (take(&payload, &segment) && shm_ != nullptr) shm_->freed(from, segment);
      return;
    }
    case ControlKind::agreement:
      return heard_agreement(from, payload);
    case ControlKind::rejoin:
      return heard_rejoin(from, payload);
    case ControlKind::moved_on: {
      std::lock_guard lock(mutex_);
      moved_on_[from] = true;
      return;
    }
    case ControlKind::leave:  // ends the connection: `closed` is called
    case ControlKind::vital:  // the channel's own
      return;
  }
}

// Somebody found that ranks disagree on an operation: one that this rank has yet to begin, runs, or has returned from.
// False: known.
bool NativeBackend::note_mismatch(uint64_t sequence, const Status& status) {
  std::lock_guard lock(mutex_);
  if (std::find(mismatched_.begin(), mismatched_.end(), sequence) != mismatched_.end()) return false;
  if (sequence <= finished_.load(std::memory_order_relaxed)) {
    late_mismatch_ = status;
    mismatched_.push_back(sequence);  // several ranks may tell of it
    if (mismatched_.size() > kRememberedMismatches) mismatched_.pop_front();
  } else if (notices_.size() < kRememberedMismatches) {
    notices_.emplace(sequence, status);
  }
  alarm_.store(true, std::memory_order_release);
  return true;
}

// A frame came too late to tell before this rank returned from the operation.
void NativeBackend::late_conflict(Rank peer, uint64_t sequence) {
  const membership::State own = attendance_.own(sequence);
  if (own.sequence != sequence) return;
  const Status status(StatusCode::mismatch,
                      "ranks disagree on operation " + std::to_string(sequence) + ": rank " +
                          std::to_string(facts_.rank) + " called " + to_string(own.signature) + ", rank " +
                          std::to_string(peer) + " something else",
                      {peer}, facts_.epoch, sequence);
  if (note_mismatch(sequence, status)) tell_status(status, sequence);
}

void NativeBackend::closed(Rank peer, net::Ending ending) {
  bool dead = ending == net::Ending::process_ended;
  if (ending == net::Ending::left) {
    // Who has moved on knows what was decided, and may be asked no more: but it lives.
    std::lock_guard lock(mutex_);
    dead = !moved_on_[peer];
  }
  council_failed(peer, dead ? membership::Agreement::Failure::dead : membership::Agreement::Failure::unreachable);
  if (ending != net::Ending::left) {
    break_group(Status(StatusCode::peer_lost, "rank " + std::to_string(peer) + " was lost: " + how(ending), {peer},
                       facts_.epoch, finished_.load() + 1),
                true);
    return;
  }
  if (shm_ != nullptr) shm_->left(peer);
  std::lock_guard lock(mutex_);
  const auto last = attendance_.of(peer);
  left_[peer] = last.has_value() ? last->sequence : 0;
  some_left_.store(true, std::memory_order_release);
  alarm_.store(true, std::memory_order_release);
  waker_.ring();
}

void NativeBackend::tell(ControlKind kind, std::span<const std::byte> payload) {
  for (Rank rank = 0; rank < facts_.size; ++rank) {
    if (rank != facts_.rank) control_->send(rank, kind, payload);
  }
}

void NativeBackend::tell_status(const Status& status, uint64_t sequence) {
  tell(ControlKind::notice, pack(status, sequence));
}

void NativeBackend::tell_state(Rank to, uint64_t sequence) {
  const membership::State state = attendance_.own(sequence);
  std::vector<std::byte> payload;
  put(&payload, state.sequence);
  put(&payload, state.signature);
  put(&payload, static_cast<int64_t>((base::Clock::now() - state.began).count()));
  control_->send(to, ControlKind::state, payload);
}

void NativeBackend::tell_progress() {
  std::vector<std::byte> payload;
  put(&payload, begun_);
  put(&payload, begun_signature_);
  put(&payload, int64_t{0});
  tell(ControlKind::state, payload);
}

// The first failure counts; everything after it is its consequence.
void NativeBackend::break_group(const Status& status, bool tell_others) {
  {
    std::lock_guard lock(mutex_);
    // But that the others have gone on without this member is the last word.
    if (!broken_.ok() && (status.code() != StatusCode::stale_epoch || broken_.code() == StatusCode::stale_epoch))
      return;
    // Before anybody here can see it, return and leave: who leaves sends nothing any more.
    if (tell_others && control_ != nullptr) tell_status(status, status.sequence());
    broken_ = status;
    alarm_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  waker_.ring();
}

// On the driver's thread: acts on what others recorded.
void NativeBackend::attend_to_alarm() {
  alarm_.store(false, std::memory_order_relaxed);
  Status broken, noticed;
  {
    std::lock_guard lock(mutex_);
    broken = broken_;
    if (broken.ok() && !collectives_.empty() && collectives_.front()->phase_ != Phase::queued) {
      const auto notice = notices_.find(collectives_.front()->sequence_);
      if (notice != notices_.end()) {
        noticed = notice->second;
        notices_.erase(notices_.begin(), std::next(notice));
      }
    }
  }
  if (broken.code() == StatusCode::peer_lost) finish_with_what_is_there();
  if (!broken.ok()) return fail_all(broken);
  if (!noticed.ok()) end_collective(*collectives_.front(), noticed);
  // Ranks that left: an operation that they have not begun can't end.
  for (Rank rank = 0; rank < facts_.size && !idle(); ++rank) {
    const Job* waiting = collectives_.empty() ? nullptr : collectives_.front();
    bool lost = waiting != nullptr && has_left(rank, waiting->sequence_);
    if (!lost && left_without_message(rank)) lost = true;
    if (!lost) continue;
    break_group(left_status(rank), true);
    return attend_to_alarm();
  }
}

// A rank that is lost may have done its part of the running operation: the news of its end must not overtake it.
void NativeBackend::finish_with_what_is_there() {
  if (collectives_.empty() || collectives_.front()->phase_ == Phase::queued) return;
  const Job* running = collectives_.front();
  for (int turns = 0; turns < kLastTurns && !collectives_.empty() && collectives_.front() == running; ++turns) {
    if (!advance_collective()) return;
  }
}

// Whether `peer` has left before it began operation `sequence`.
bool NativeBackend::has_left(Rank peer, uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  return left_[peer].has_value() && *left_[peer] < sequence;
}

// Whether a send or receive waits for a rank that has left and whose last bytes have come.
bool NativeBackend::left_without_message(Rank peer) {
  {
    std::lock_guard lock(mutex_);
    if (!left_[peer].has_value()) return false;
  }
  const bool by_stream = tcp_ != nullptr && !(shm_ != nullptr && facts_.topology.same_host(peer, facts_.rank));
  if (by_stream && !stream_ended_[peer]) return false;
  (void)transport_->progress();
  return std::any_of(pairwise_.begin(), pairwise_.end(), [peer](const Job* job) {
    return job->posted_ && job->message_.peer == peer && !job->message_.finished();
  });
}

Status NativeBackend::left_status(Rank peer) const {
  uint64_t last = 0;
  {
    std::lock_guard lock(mutex_);
    last = left_[peer].value_or(0);
  }
  return Status(StatusCode::peer_lost,
                "rank " + std::to_string(peer) + " has left the group after operation " + std::to_string(last) +
                    "; this rank has come to operation " + std::to_string(begun_),
                {peer}, facts_.epoch, begun_);
}

void NativeBackend::fail_all(const Status& status) {
  if (has_incoming_.load(std::memory_order_acquire)) adopt();
  while (!collectives_.empty()) end_collective(*collectives_.front(), status);
  while (!pairwise_.empty()) {
    Job* job = pairwise_.back();
    pairwise_.pop_back();
    if (job->posted_ && job->message_.peer != facts_.rank) transport_->cancel(job->message_);
    finish(*job, status);
  }
}

// Early enough for the answers to come before the deadline.
base::Time NativeBackend::last_question(const Job& job) {
  return job.deadline_ - std::min<base::Duration>(job.request().timeout / 4, std::chrono::milliseconds(200));
}

// Asks the others where they are, each time after a longer pause.
void NativeBackend::ask_around(Job& job, base::Time now) {
  job.question_pause_ = std::min<base::Duration>(job.question_pause_ * 2, std::chrono::seconds(1));
  const base::Time last = last_question(job);
  if (job.asked_ < last) job.asked_ = now;  // answers to the first of the last questions had the time to come
  job.next_question_ = now < last && now + job.question_pause_ > last ? last : now + job.question_pause_;
  std::vector<std::byte> payload;
  put(&payload, job.sequence_);
  for (Rank rank = 0; rank < facts_.size; ++rank) {
    if (rank != facts_.rank) control_->send(rank, ControlKind::ask, payload);
  }
}

// The state of a rank as far as it is known here; whether it is sure to be the latest.
bool NativeBackend::state_of(Rank rank, base::Time recently, membership::State* state) const {
  if (shm_ != nullptr && facts_.topology.same_host(rank, facts_.rank)) {
    const auto entered = shm_->last_entered(rank);
    *state = {entered.sequence, entered.signature, entered.began};
    return true;
  }
  *state = attendance_.of(rank).value_or(membership::State());
  return attendance_.answered_since(rank, recently);
}

// "; rank 1 last began operation 6, barrier, 803 ms ago"
std::string NativeBackend::whereabouts(Rank rank, const membership::State& state, bool answers) const {
  std::string text = "; rank " + std::to_string(rank);
  if (!answers) text += " does not answer";
  if (state.sequence == 0) return answers ? text + " has begun no collective operation" : text;
  const base::Duration age = std::max(base::Clock::now() - state.began, base::Duration(0));
  return text + (answers ? " last began operation " : " and had last begun operation ") +
         std::to_string(state.sequence) + ", " + to_string(state.signature) + ", " + milliseconds(age) + " ago";
}

// The deadline of `job` has passed: who did not come?
Status NativeBackend::expired(Job& job) {
  const Request& request = job.request();
  const std::string waited = " within " + milliseconds(request.timeout);
  const base::Time recently =
      job.deadline_ - std::max<base::Duration>(request.timeout / 2, std::chrono::milliseconds(50));
  membership::State state;
  if (!job.collective()) {
    const bool any = request.collective == Collective::receive_any && !job.posted_;
    const Rank peer = job.posted_ ? job.message_.peer : request.root;
    const bool answers = !any && peer != facts_.rank && state_of(peer, recently, &state);
    return Status(StatusCode::timeout,
                  std::string(name(request.collective)) + " with tag " + std::to_string(request.tag) + ": " +
                      (any ? "no rank" : "rank " + std::to_string(peer)) + " did not take its part" + waited +
                      (any || peer == facts_.rank ? "" : whereabouts(peer, state, answers)),
                  any ? std::vector<Rank>() : std::vector<Rank>{peer}, facts_.epoch);
  }
  // Who does not answer keeps the others waiting, wherever they are; else whoever is the furthest behind, for whom
  // those wait that are behind as well.
  std::vector<Rank> silent, late;
  uint64_t least = job.sequence_;
  bool all_came = true;
  std::string details;
  // Silence says nothing where this rank itself was kept from asking in time.
  const bool asked = job.asked_ >= recently && job.asked_ + request.timeout / 8 <= base::Clock::now();
  for (Rank rank = 0; rank < facts_.size; ++rank) {
    if (rank == facts_.rank) continue;
    const bool answers = state_of(rank, recently, &state);
    const bool by_lines = shm_ != nullptr && facts_.topology.same_host(rank, facts_.rank);
    const bool answered = attendance_.answered_since(rank, recently);
    const uint64_t begun = answers ? state.sequence : 0;
    if (!answered && (asked || !by_lines)) {
      silent.push_back(rank);
      all_came = all_came && begun >= job.sequence_;
      if (details.size() < 512) details += whereabouts(rank, state, false);
      continue;
    }
    if (begun >= job.sequence_) continue;
    all_came = false;
    if (begun < least) late.clear();
    least = std::min(least, begun);
    if (begun == least) late.push_back(rank);
    if (details.size() < 512) details += whereabouts(rank, state, true);
  }
  if (!silent.empty()) late = silent;
  const std::string what = to_string(signature_of(request)) + " (operation " + std::to_string(job.sequence_) + ")";
  if (!all_came) {
    return Status(StatusCode::timeout, what + ": " + list(late) + " did not come" + waited + details, late,
                  facts_.epoch, job.sequence_);
  }
  if (!silent.empty()) {
    return Status(StatusCode::timeout, what + ": all ranks came, but it did not end" + waited + details, late,
                  facts_.epoch, job.sequence_);
  }
  if (job.phase_ == Phase::running) execution_.waiting_for(&late);
  for (Rank rank = 0; rank < facts_.size && job.phase_ == Phase::gathering && all_local_; ++rank) {
    if (rank != facts_.rank && shm_->owes_table(rank)) late.push_back(rank);
  }
  std::sort(late.begin(), late.end());
  late.erase(std::unique(late.begin(), late.end()), late.end());
  return Status(
      StatusCode::timeout,
      what + ": all ranks came, but it did not end" + waited + (late.empty() ? "" : "; it waits for " + list(late)),
      late, facts_.epoch, job.sequence_);
}

std::string NativeBackend::describe_conflict(const Job& job, bool second_known,
                                             const transport::Signature& second) const {
  const transport::Conflict& conflict = job.conflict_;
  const std::string first_rank = "rank " + std::to_string(conflict.first),
                    second_rank = "rank " + std::to_string(conflict.second);
  std::string text = "ranks disagree on operation " + std::to_string(job.sequence_) + ": ";
  if (conflict.sizes) {
    text +=
        "in " + to_string(conflict.first_signature) + ", " + first_rank + " and " + second_rank + " differ on sizes: ";
    if (job.request().collective == Collective::batch) return text + "members of the batch do not fit";
    return text + std::to_string(conflict.gives) + " bytes are given where " + std::to_string(conflict.takes) +
           " are taken";
  }
  text += first_rank + " called " + to_string(conflict.first_signature) + ", " + second_rank + " called " +
          (second_known ? to_string(second) : "something else");
  if (conflict.differ.size() > 1) text += "; " + list(conflict.differ) + " differ from the others";
  if (second_known && to_string(second) == to_string(conflict.first_signature)) {
    text += " with other counts, an other factor or another algorithm";
  }
  return text;
}

}  // namespace regroup::backend::native
