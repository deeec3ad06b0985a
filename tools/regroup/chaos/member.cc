// SPDX-License-Identifier: Apache-2.0
#include "chaos/member.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "chaos/exercise.h"
#include "chaos/resources.h"
#include "regroup/join.h"

namespace regroup::tool::chaos {

namespace {

using namespace std::chrono_literals;

constexpr auto kJoining = 20s;
// Members that do not come are given up after half of it: none is that late but where there is no way to it,
// or where one of two is gone.
constexpr base::Duration kShrinking = 4s, kShrinkingCutOff = 1200ms;
constexpr auto kSettling = 30s;      // for the others
constexpr auto kRelease = 3s;        // for threads and mappings to go
constexpr uint32_t kAfterwards = 4;  // operations of the next life; and after a fault that is none
constexpr auto kLook = 200us;

void* touch(uint64_t bytes) {
  if (bytes == 0) return nullptr;
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

class Member {
 public:
  Member(const Scenario& scenario, Rank rank, Board& board, int lifeline)
      : scenario_(scenario),
        rank_(rank),
        victim_(rank == scenario.victim),
        board_(board),
        place_(board.place[rank]),
        lifeline_(lifeline) {}

  void play(const std::string& store_url) {
    place_.phase = Phase::joining;
    std::optional<ProcessGroup> group = join(store_url);
    if (!group) return;
    // Two sets of memory: what the failed operation used is watched while the next life uses the other.
    Exercise first(scenario_.most_bytes), second(scenario_.most_bytes);
    place_.phase = Phase::working;
    const bool failed = work(*group, first);
    if (aborter_.joinable()) aborter_.join();
    if (failed) {
      first.paint();
      place_.phase = Phase::failed;
      if (go_on(*group)) {
        place_.phase = Phase::shrunk;
        work_again(*group, second);
      }
    }
    place_.phase = Phase::settled;
    wait_for_end();
    if (failed) place_.complain(first.fresh_paint());
    place_.phase = Phase::leaving;
    leave(*group, failed);
  }

 private:
  std::optional<ProcessGroup> join(const std::string& store_url) {
    const void* memory = touch(victim_ ? scenario_.resident : 0);
    if (memory == MAP_FAILED) place_.complain("no memory for what the victim should have resident");
    JoinOptions options;
    options.rank = rank_;
    options.size = scenario_.ranks;
    options.store_url = store_url;
    options.timeout = kJoining;
    options.tuning = "";
    options.transport = scenario_.wire == Wire::mixed ? "auto" : name(scenario_.wire);
    options.host_label = "host" + std::to_string(scenario_.hosts[rank_]);
    Result<ProcessGroup> joined = regroup::join(options);
    Status status = joined.ok() ? joined->set_timeout(scenario_.timeout) : joined.status();
    if (status.ok()) return joined.value();
    place_.complain("joining gave " + status.to_string());
    return std::nullopt;
  }

  // The first life; true once an operation has failed. A fault that is none ends it after some operations.
  bool work(ProcessGroup& group, Exercise& exercise) {
    const auto until = base::Clock::now() + 2 * scenario_.timeout + kSettling;
    for (uint32_t index = 0; index < kMostOperations && base::Clock::now() < until; ++index) {
      if (scenario_.fault == Fault::slow && index > scenario_.operation + kAfterwards) return false;
      if (victim_ && index == scenario_.operation) suffer(group);
      const conformance::Case c = operation_of(scenario_, 1, index, group.size());
      place_.begun.store(index + 1, std::memory_order_release);
      const Exercise::Outcome outcome = exercise.run(group, c, values_of(scenario_, 1, index));
      place_.complain(outcome.wrong);
      if (!outcome.status.ok()) {
        place_.called_at = outcome.called_at;
        place_.failed_at = outcome.ended_at;
        place_.failure.set(outcome.status);
        return true;
      }
      ++place_.right;
      place_.fingerprints[index] = outcome.fingerprint;
    }
    return false;
  }

  // The victim's own part in the fault.
  void suffer(ProcessGroup& group) {
    if (scenario_.has_child) {
      const pid_t child = ::fork();
      char none;
      if (child == 0) {
        while (::read(lifeline_, &none, 1) > 0) continue;
        ::_exit(0);
      }
      place_.helper = child;
    }
    if (scenario_.fault == Fault::abort && scenario_.moment == Moment::inside) {
      aborter_ = std::thread([this, group]() mutable {
        std::this_thread::sleep_for(scenario_.delay);
        abort(group);
      });
    }
    if (scenario_.moment != Moment::before) return;
    if (scenario_.fault == Fault::abort) return abort(group);
    board_.fault_at = now_ns();
    if (scenario_.fault == Fault::kill) ::raise(SIGKILL);
    if (scenario_.fault == Fault::stop || scenario_.fault == Fault::resume) ::raise(SIGSTOP);
    if (scenario_.fault == Fault::slow) std::this_thread::sleep_for(scenario_.pause);
  }

  void abort(ProcessGroup& group) {
    const int64_t begin = now_ns();
    board_.fault_at = begin;
    group.abort("chaos");
    board_.abort_took = now_ns() - begin;
  }

  bool go_on(ProcessGroup& group) {
    ShrinkOptions options;
    const bool two = scenario_.ranks == 2 && scenario_.fault != Fault::kill && scenario_.fault != Fault::abort;
    options.timeout = two || scenario_.fault == Fault::partition ? kShrinkingCutOff : kShrinking;
    const Status status = group.shrink(options);
    place_.shrink.set(status);
    if (!status.ok()) return false;
    place_.size = group.size();
    place_.epoch = group.epoch();
    for (const Rank member : group.members()) place_.members |= uint64_t{1} << member;
    return true;
  }

  void work_again(ProcessGroup& group, Exercise& exercise) {
    for (uint32_t index = 0; index < kAfterwards; ++index) {
      const conformance::Case c = operation_of(scenario_, 2, index, group.size());
      const Exercise::Outcome outcome = exercise.run(group, c, values_of(scenario_, 2, index));
      if (index == 0) place_.recovered_at = outcome.ended_at;
      place_.complain(outcome.wrong);
      if (!outcome.status.ok()) return place_.complain("after shrink: " + outcome.status.to_string());
      ++place_.right;
    }
  }

  // Until the parent has seen all others settle.
  void wait_for_end() {
    const auto until = base::Clock::now() + kSettling;
    while (!board_.finish && base::Clock::now() < until) std::this_thread::sleep_for(kLook);
  }

  void leave(ProcessGroup& group, bool failed) {
    const bool whole = group.last_failure().ok();
    if (!whole && !(failed && place_.shrink.code != StatusCode::ok)) {
      place_.complain("the group broke at its end: " + group.last_failure().to_string());
    }
    // Nobody goes before all are through.
    if (whole) {
      if (Status status = group.run(barrier()); !status.ok()) place_.complain("at the end: " + status.to_string());
    }
    if (whole && scenario_.says_goodbye) {
      if (Status status = group.leave(); !status.ok()) place_.complain("leave gave " + status.to_string());
    }
    group = ProcessGroup();
  }

  const Scenario& scenario_;
  Rank rank_;
  bool victim_;
  Board& board_;
  Place& place_;
  int lifeline_;
  std::thread aborter_;
};

// So that what a process makes once, and keeps, is there before anything is counted.
void warm_up() {
  JoinOptions options;
  options.rank = 0;
  options.size = 1;
  options.store = make_hash_store();
  options.tuning = "";
  (void)regroup::join(options);
}

}  // namespace

int play(const Scenario& scenario, Rank rank, Board& board, const std::string& store_url, int lifeline) {
  Place& place = board.place[rank];
  try {
    warm_up();
    const Resources before = Resources::count();
    Member(scenario, rank, board, lifeline).play(store_url);
    // Threads and mappings go a moment after their group.
    const auto until = base::Clock::now() + kRelease;
    std::string stayed = Resources::count().beyond(before);
    while (!stayed.empty() && base::Clock::now() < until) {
      std::this_thread::sleep_for(1ms);
      stayed = Resources::count().beyond(before);
    }
    std::strncpy(place.stayed, stayed.c_str(), sizeof place.stayed - 1);
  } catch (const std::exception& error) {
    place.complain(std::string("an exception: ") + error.what());
    return 1;
  }
  place.phase = Phase::done;
  return 0;
}

}  // namespace regroup::tool::chaos
