// SPDX-License-Identifier: Apache-2.0
#include "conformance/session.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <thread>

#include "base/assert.h"
#include "regroup/join.h"

namespace regroup::conformance {

namespace {

constexpr size_t kNotes = 1024;
constexpr size_t kShown = 4;  // notes to a failure
constexpr size_t kMostRanks = 32;
constexpr uint32_t kNoItem = ~0u;

struct Note {
  std::atomic<bool> written;
  uint32_t item;
  Rank rank;
  char text[488];
};

struct Cell {
  std::atomic<Verdict> verdict;
  std::atomic<uint64_t> fingerprint;
  std::atomic<uint32_t> us;
};

}  // namespace

// Mapped by parent and children; zeroed pages are its first state. Cells follow, item by item, a rank each.
struct alignas(16) Session::Shared {
  std::atomic<uint32_t> notes;
  std::atomic<uint32_t> begun[kMostRanks];     // items begun
  std::atomic<uint32_t> finished[kMostRanks];  // items finished
  std::atomic<bool> left[kMostRanks];          // after an item that put ranks out of step
  Note note[kNotes];

  Cell& cell(size_t item, Rank rank, Rank ranks) { return reinterpret_cast<Cell*>(this + 1)[item * ranks + rank]; }
  void add_note(uint32_t item, Rank rank, const std::string& text) {
    const uint32_t at = notes.fetch_add(1);
    if (at >= kNotes) return;
    note[at].item = item;
    note[at].rank = rank;
    std::strncpy(note[at].text, text.c_str(), sizeof note[at].text - 1);
    note[at].written.store(true, std::memory_order_release);
  }
};

Session::Session(GroupKey key, std::vector<Item> items, SessionOptions options)
    : key_(std::move(key)),
      items_(std::move(items)),
      options_(std::move(options)),
      moved_(std::chrono::steady_clock::now()) {
  REGROUP_ASSERT(key_.ranks <= kMostRanks);
  shared_bytes_ = sizeof(Shared) + sizeof(Cell) * items_.size() * key_.ranks;
  void* memory = ::mmap(nullptr, shared_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REGROUP_ASSERT(memory != MAP_FAILED);
  shared_ = static_cast<Shared*>(memory);

  int ends[2];
  REGROUP_ASSERT(::pipe(ends) == 0);
  ended_ = base::Fd(ends[0]);
  const base::Fd held(ends[1]);  // by every child: end of file when the last has gone
  const bool threads = key_.launch == Launch::threads;
  static uint64_t made = 0;
  const std::string store_url = "file://" + options_.directory + "/store-" + std::to_string(++made);
  const pid_t parent = ::getpid();
  for (Rank rank = 0; rank < (threads ? 1 : key_.ranks); ++rank) {
    const pid_t child = ::fork();
    REGROUP_ASSERT(child >= 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      run_child(rank, threads ? key_.ranks : 1, store_url);
      ::_exit(0);
    }
    children_.push_back(child);
  }
  statuses_.assign(children_.size(), -1);
}

Session::~Session() {
  for (size_t child = 0; child < children_.size(); ++child) {
    if (statuses_[child] != -1) continue;
    ::kill(children_[child], SIGKILL);
    ::waitpid(children_[child], nullptr, 0);
  }
  ::munmap(shared_, shared_bytes_);
}

// In the child: ranks `first` … `first + count − 1`.
void Session::run_child(Rank first, Rank count, const std::string& store_url) {
  JoinOptions join;
  join.size = key_.ranks;
  join.timeout = options_.timeout;
  join.backend = key_.backend;
  join.transport = key_.wire == Wire::tcp                                           ? "tcp"
                   : key_.wire == Wire::shm || key_.wire == Wire::shm_without_reads ? "shm"
                                                                                    : "auto";
  join.cross_process_reads = key_.wire != Wire::shm_without_reads;
  if (count == 1 && key_.launch == Launch::forked)
    join.store_url = store_url;
  else
    join.store = make_hash_store();
  std::vector<std::thread> threads;
  for (Rank rank = first; rank < first + count; ++rank) {
    join.rank = rank;
    if (key_.wire == Wire::two_hosts || key_.wire == Wire::three_hosts) {
      join.host_label = "host" + std::to_string(host_of(key_.wire, key_.ranks, rank));
    }
    if (count == 1)
      run_rank(rank, join);
    else
      threads.emplace_back([this, rank, join] { run_rank(rank, join); });
  }
  for (std::thread& thread : threads) thread.join();
}

void Session::run_rank(Rank rank, JoinOptions join) const {
  try {
    Result<ProcessGroup> joined = regroup::join(std::move(join));
    if (!joined.ok()) return shared_->add_note(kNoItem, rank, "joining gave " + joined.status().to_string());
    Member member(joined.value(), options_.seed);
    for (uint32_t item = 0; item < items_.size() && !member.broken(); ++item) {
      shared_->begun[rank].store(item + 1);
      const auto begin = std::chrono::steady_clock::now();
      Outcome outcome;
      switch (items_[item].kind) {
        case Item::Kind::a_case:
          outcome = member.run_case(items_[item].row);
          break;
        case Item::Kind::refusal:
          outcome = member.run_refusal(items_[item].index);
          break;
        case Item::Kind::mismatch:
          outcome = member.run_mismatch(items_[item].index);
          break;
      }
      if (outcome.verdict == Verdict::failed) shared_->add_note(item, rank, outcome.text);
      Cell& cell = shared_->cell(item, rank, key_.ranks);
      cell.fingerprint.store(outcome.fingerprint);
      const auto took = std::chrono::steady_clock::now() - begin;
      cell.us.store(static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
      cell.verdict.store(outcome.verdict);
      shared_->left[rank].store(outcome.out_of_step);
      shared_->finished[rank].store(item + 1);
      if (outcome.out_of_step) break;
    }
  } catch (const std::exception& error) {
    shared_->add_note(kNoItem, rank, error.what());
  }
}

size_t Session::done() const {
  uint32_t least = ~0u;
  for (Rank rank = 0; rank < key_.ranks; ++rank) least = std::min(least, shared_->finished[rank].load());
  return least;
}

bool Session::end_if_hung() {
  uint64_t sum = 0;
  for (Rank rank = 0; rank < key_.ranks; ++rank) sum += shared_->begun[rank].load() + shared_->finished[rank].load();
  const auto now = std::chrono::steady_clock::now();
  if (sum != seen_) {
    seen_ = sum;
    moved_ = now;
  }
  if (hung_ || now - moved_ < 2 * options_.timeout + std::chrono::seconds(5)) return false;
  hung_ = true;
  for (const pid_t child : children_) ::kill(child, SIGKILL);
  return true;
}

std::vector<ItemResult> Session::results() {
  for (size_t child = 0; child < children_.size(); ++child) {
    if (statuses_[child] == -1) ::waitpid(children_[child], &statuses_[child], 0);
  }
  // The first item that some rank did not finish is the one that broke the group, whatever faster ranks went on to.
  const size_t finished = done();
  std::vector<ItemResult> results;
  for (size_t item = 0; item < finished; ++item) results.push_back(merge(item));
  // Ranks that left on purpose have failed the item before; the next one shall be tried in another group.
  bool left = false;
  for (Rank rank = 0; rank < key_.ranks; ++rank)
    left = left || (shared_->left[rank] && shared_->finished[rank] == finished);
  if (finished < items_.size() && !(left && finished > 0)) results.push_back({Verdict::failed, blame(finished)});
  return results;
}

// All ranks must agree.
ItemResult Session::merge(size_t item) const {
  Verdict verdict = shared_->cell(item, 0, key_.ranks).verdict.load();
  const uint64_t fingerprint = shared_->cell(item, 0, key_.ranks).fingerprint.load();
  bool same_bits = true;
  uint32_t us = 0;
  std::string disagreement;
  for (Rank rank = 0; rank < key_.ranks; ++rank) {
    const Cell& cell = shared_->cell(item, rank, key_.ranks);
    const Verdict one = cell.verdict.load();
    us = std::max(us, cell.us.load());
    if (one == Verdict::none || one == Verdict::failed) return {Verdict::failed, blame(item)};
    if (one != verdict) disagreement = "some ranks say that it is unsupported, some do it";
    same_bits = same_bits && cell.fingerprint.load() == fingerprint;
  }
  if (!disagreement.empty()) return {Verdict::failed, disagreement};
  if (!same_bits) return {Verdict::failed, "ranks have results of different bits"};
  return {verdict, {}, us};
}

// What is known of a failure: what ranks noted, who ended how, who never came back.
std::string Session::blame(size_t item) const {
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  const size_t notes = std::min<size_t>(shared_->notes.load(), kNotes);
  size_t found = 0;
  for (size_t at = 0; at < notes; ++at) {
    const Note& note = shared_->note[at];
    if (!note.written.load(std::memory_order_acquire)) continue;
    const bool later = item == done() && note.item > item;
    if ((note.item != item && !later) || ++found > kShown) continue;
    const std::string where = note.item == item || note.item == kNoItem ? ": " : " in a later case: ";
    add("rank " + std::to_string(note.rank) + where + note.text);
  }
  if (found > kShown) add("and " + std::to_string(found - kShown) + " more ranks say so");
  for (size_t child = 0; child < statuses_.size(); ++child) {
    if (!WIFSIGNALED(statuses_[child]) || hung_) continue;
    add((key_.launch == Launch::threads ? "the ranks' process" : "rank " + std::to_string(child)) +
        " was ended by signal " + std::to_string(WTERMSIG(statuses_[child])));
  }
  for (Rank rank = 0; hung_ && rank < key_.ranks; ++rank) {
    if (shared_->begun[rank].load() == item + 1 && shared_->finished[rank].load() == item) {
      add("rank " + std::to_string(rank) + " hung");
    }
  }
  return text.empty() ? "a rank did not finish it" : text;
}

}  // namespace regroup::conformance
