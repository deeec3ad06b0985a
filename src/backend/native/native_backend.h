// SPDX-License-Identifier: Apache-2.0
// The native backend: runs schedules over shm, tcp, or both.
//
// One thread at a time drives a group: a caller that waits, or the group's progress thread where operations were
// started and nobody waits. The driver alone touches the transports, the executions and the adopted jobs. Everybody
// else hands jobs over under `mutex_` and rings the waker. The control channel's service thread only records what it
// heard (under `mutex_`, or in Attendance), raises `alarm_` and rings.
//
// Files: native_backend (calls in), driver (the loop), collectives and pairwise (what it drives), watch (what goes
// wrong), plans (requests to programs), join (how members meet), rebirth (what they agree on, and how
// survivors meet anew).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "backend/native/exchange.h"
#include "backend/native/job.h"
#include "backend/native/library_call.h"
#include "backend/native/plans.h"
#include "base/fork.h"
#include "executor/eager.h"
#include "executor/execution.h"
#include "membership/attendance.h"
#include "membership/council.h"
#include "membership/rebirth.h"
#include "net/control.h"
#include "net/waker.h"
#include "transport/mixed/mixed_transport.h"
#include "transport/module/module_transport.h"
#include "transport/shm/shm_transport.h"
#include "transport/transport.h"

namespace regroup::backend::native {

// The algorithm by which a request asks for the library's own collective.
inline constexpr std::string_view kByLibrary = "library";

enum class Wires : uint8_t { automatic, shm, tcp };

struct NativeOptions {
  Rank rank = 0;
  Rank size = 1;
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);  // for joining
  Wires wires = Wires::automatic;
  std::shared_ptr<const module::Module> library;  // that carries collectives; nullptr: none
  std::string interface;        // whose address others shall use; empty: the one that leads to `towards`
  std::string towards;          // a host all members reach (the store's); may be empty
  uint64_t previous_epoch = 0;  // of this member's life before; the next is above that of every member
  // Asked now and then while joining: a failure ends the attempt with it. May be empty.
  std::function<Status()> interrupted;
  std::string host_label;  // ranks with different labels count as being on different hosts
  bool cross_process_reads = true;
  unsigned threads = 0;  // of a rank, at most executor::kMostThreads; 0: as its cores allow
  std::chrono::nanoseconds liveness = net::kLiveness;  // after which a host that does not answer is lost
  std::shared_ptr<const algorithms::Tuning> tuning;    // rows before the built-in table's; nullptr: none
};

class NativeBackend final : public Backend {
 public:
  static Result<std::shared_ptr<Backend>> join(const NativeOptions& options, const Exchange& exchange);
  ~NativeBackend() override;

  std::string description() const override { return description_; }
  Rank rank() const override { return facts_.rank; }
  Rank size() const override { return facts_.size; }
  uint64_t epoch() const override { return facts_.epoch; }
  Status check(const Request& request) const override;
  Status run(const Request& request) override;
  std::shared_ptr<Pending> start(Request request) override;
  void abort(const std::string& reason) override;
  Status last_failure() const override;
  Result<std::shared_ptr<Backend>> subgroup(const std::vector<Rank>& ranks, std::chrono::nanoseconds timeout) override;
  Result<Agreed> agree(uint64_t value, std::chrono::nanoseconds timeout) override;
  Result<Agreed> agree_outcome(bool ended_well, std::chrono::nanoseconds timeout) override;
  Result<Reborn> shrink(Quorum quorum, std::chrono::nanoseconds timeout) override;
  Status leave(std::chrono::nanoseconds timeout) override;
  void close(const Status& why) override { end(why, true); }

 private:
  friend class Job;
  static constexpr size_t kRememberedMismatches = 256;

  class Joining;

  explicit NativeBackend(const NativeOptions& options);
  static void let_go(NativeBackend* backend);
  // Whether this is the child of a fork, where the threads are missing and the locks may be held for ever: the group is
  // the parent's alone.
  bool inherited() const { return generation_ != base::fork_generation(); }
  static Status inherited_status();
  void end(const Status& why, bool moves_on);

  // --- calls in (native_backend.cc)
  Status refusal_locked();
  void stop_driving_locked();
  void enqueue_locked(Job& job);
  Status run_eager(const Request& request, std::unique_lock<std::mutex>& lock);
  void split_batch(Job& job);
  void finish(Job& job, Status status);
  bool wait_for(Job& job, base::Time until, std::unique_lock<std::mutex>& lock);
  void ensure_progress_thread_locked();
  void progress_loop();

  // --- the loop (driver.cc)
  void drive(Job* mine, base::Time until);
  bool only_sockets() const { return tcp_ != nullptr && shm_ == nullptr; }
  int spins() const;
  void adopt();
  bool turn();
  void look_at_clock();
  bool sleep_until(base::Time until);
  bool idle() const { return collectives_.empty() && pairwise_.empty(); }

  // --- collectives (collectives.cc)
  bool advance_collective();
  Status activate(Job& job);
  Status begin_planned(Job& job);
  bool eager(const Request& request) const;
  void begin_eager(const Request& request, uint64_t sequence);
  bool spin_eager(const Request& request, uint64_t sequence);
  Status known_to_fail(uint64_t sequence);
  bool advance_gathering(Job& job);
  bool advance_running(Job& job);
  void conflict_found(Job& job);
  bool settle_conflict(Job& job);
  bool compare_states(Job& job);
  void end_collective(Job& job, Status status);
  bool bind_memory(Job& job, const Plan& plan);
  void move_input_away(const Request& request, executor::Binding& binding, std::byte* to);

  // --- over a module (library.cc)
  Status open_library(base::Time deadline, const std::string& address);
  module::Module::Service service_of(const Request& request) const;
  Status check_for_library(const Request& request) const;
  Status begin_announcing(Job& job);
  void announce_to_hosts(Job& job);
  void announced_to_hosts(Job& job);
  void carry(Job& job);
  bool advance_carried(Job& job);
  bool advance_planned_by_library(Job& job);
  void library_failed(Job& job);
  bool explain_failure(Job& job);
  void take_back_from_library(Job& job, const Status& status);
  void close_library();
  base::Time look_at_library_again(base::Time until);

  // --- sends and receives (pairwise.cc)
  bool advance_pairwise();
  void end_pair(Job& job);
  void post(Job& job, Rank peer);
  bool match_self();
  uint64_t& pair_sequence(Rank peer, uint32_t tag, bool sends);

  // --- agreement, and the next life (rebirth.cc)
  struct Assembly;
  Result<membership::Decision> decide(membership::Contribution mine, Quorum quorum, membership::RankSet suspects,
                                      base::Time deadline, membership::Patience patience);
  Result<membership::Decision> decide_by_all(membership::Contribution mine, std::chrono::nanoseconds timeout);
  void send_agreement_locked();
  void dismiss_assembly();
  void heard_agreement(Rank from, std::span<const std::byte> payload);
  void heard_rejoin(Rank from, std::span<const std::byte> payload);
  void council_failed(Rank member, membership::Agreement::Failure how);
  membership::RankSet suspects() const;
  Status stale() const;
  Status mismatch_of_purposes() const;
  Result<std::shared_ptr<Backend>> meet_survivors(const std::vector<Rank>& survivors, uint64_t previous_epoch,
                                                  base::Time deadline);

  // --- what goes wrong (watch.cc)
  void heard(Rank from, net::ControlKind kind, std::span<const std::byte> payload, base::Fd descriptor);
  void closed(Rank peer, net::Ending ending);
  void stream_lost(Rank peer, const Status& status);
  bool note_mismatch(uint64_t sequence, const Status& status);
  void late_conflict(Rank peer, uint64_t sequence);
  void tell(net::ControlKind kind, std::span<const std::byte> payload);
  void tell_status(const Status& status, uint64_t sequence);
  void tell_progress();
  void tell_state(Rank to, uint64_t sequence);
  void break_group(const Status& status, bool tell_others);
  void attend_to_alarm();
  void finish_with_what_is_there();
  void fail_all(const Status& status);
  Status expired(Job& job);
  bool state_of(Rank rank, base::Time recently, membership::State* state) const;
  std::string whereabouts(Rank rank, const membership::State& state, bool answers) const;
  static base::Time last_question(const Job& job);
  void ask_around(Job& job, base::Time now);
  bool has_left(Rank peer, uint64_t sequence) const;
  bool left_without_message(Rank peer);
  Status left_status(Rank peer) const;
  std::string describe_conflict(const Job& job, bool second_known, const transport::Signature& second) const;

  const uint64_t generation_ = base::fork_generation();
  NativeOptions options_;
  GroupFacts facts_;
  std::string description_;
  bool all_local_ = false;       // every rank reads every line: nobody needs to be asked where it is
  bool oversubscribed_ = false;  // more ranks on this host than cores: yield early
  uint64_t probe_word_ = 0;      // what peers try to read

  net::Waker waker_;
  std::atomic<bool> moves_on_{false};  // the group's next life has begun: nothing of this one is needed by anybody
  std::unique_ptr<transport::shm::ShmTransport> shm_;
  std::unique_ptr<transport::Transport> tcp_;
  std::unique_ptr<transport::Transport> mixed_;
  transport::Transport* transport_ = nullptr;
  membership::Attendance attendance_;
  uint64_t freed_ticket_ = 0;

  // --- the driver's
  JobQueue collectives_;  // the first one is being run
  std::vector<Job*> pairwise_;
  PlanCache plans_;
  std::optional<executor::Team> team_;  // of facts_.threads
  executor::Execution execution_;
  executor::Eager eager_;
  std::shared_ptr<const Plan> plan_;  // of the running collective
  std::vector<executor::Binding> bindings_;
  std::vector<transport::MemberMemory> memories_;
  std::vector<transport::Segment> moved_input_;
  std::vector<uint64_t> gives_, takes_;
  std::unordered_map<uint64_t, uint64_t> pair_sequences_;
  std::vector<uint64_t> any_sequences_;
  // --- the driver's, in a group over a module
  std::unique_ptr<module::Session> library_;
  std::unique_ptr<transport::ModuleTransport> library_messages_;  // nullptr: it has none
  LibraryCall library_call_;
  module::Module::Service carries_;           // how the running collective is served
  void* carried_ = nullptr;                   // while the library runs it
  std::shared_ptr<const Plan> announcement_;  // to other hosts
  bool announces_sizes_ = false;
  std::vector<uint64_t> announced_;  // bytes that each rank gives to this one
  base::Duration library_pause_{};
  bool library_aborted_ = false;

  transport::Signature begun_signature_;
  uint64_t begun_ = 0;              // sequence of the last collective that was begun
  std::vector<bool> stream_ended_;  // tcp: the peer's stream has ended

  // --- shared
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job*> incoming_;
  std::atomic<bool> has_incoming_ = false;
  std::atomic<bool> alarm_ = false;           // broken_, notices_ or left_ changed
  std::atomic<bool> states_changed_ = false;  // `attendance_` has heard something
  std::atomic<bool> some_left_ = false;       // `left_` has an entry: operations that begin have to look
  std::atomic<uint32_t> waiters_ = 0;         // threads that want to drive
  std::atomic<uint64_t> finished_ = 0;        // sequence of the last collective that ended here
  bool driving_ = false;
  bool leaving_ = false;  // the last holder waits for what is outstanding
  bool closing_ = false;
  bool closed_ = false;
  uint64_t issued_ = 0;     // sequence of the last collective that was called
  size_t outstanding_ = 0;  // jobs not done
  Status broken_;
  Status late_mismatch_;                       // of an operation that had ended well here: ends the next one, for all
  std::map<uint64_t, Status> notices_;         // operations that others found to fail, by sequence; few
  std::deque<uint64_t> mismatched_;            // operations that ended so here: the last few
  std::vector<std::optional<uint64_t>> left_;  // ranks that left in order, and the last operation they had begun
  std::vector<bool> moved_on_;                 // ranks that live on in a next life
  std::thread progress_;

  std::unique_ptr<Assembly> assembly_;
  std::unique_ptr<net::Control> control_;  // last: its handlers use everything above
};

}  // namespace regroup::backend::native
