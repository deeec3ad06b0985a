// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite.h"

#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>

#include "conformance/pairwise.h"
#include "conformance/session.h"

namespace regroup::conformance {

namespace {

using Steady = std::chrono::steady_clock;

constexpr int kMostRestarts = 20;   // of a group that broke
constexpr double kHangSeconds = 5;  // a group that took so long counts for several
constexpr int kHangRestarts = 7;

constexpr Wire kBriefWires[] = {Wire::shm, Wire::tcp};
constexpr Rank kBriefRanks[] = {1, 2, 4};

// A folder for the ranks to find each other in, removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "regroup-conformance-XXXXXX").string();
    if (const char* made = ::mkdtemp(pattern.data())) path_ = made;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Waiting {
  GroupKey key;
  std::vector<Item> items;
  int restarts = 0;
};

class Round {
 public:
  Round(const SuiteOptions& options, uint64_t seed, Summary& summary)
      : options_(options), seed_(seed), summary_(summary) {
    std::map<GroupKey, std::vector<Item>> groups;
    for (const Item& item : items_of_round(options, seed)) groups[item.group].push_back(item);
    for (auto& [key, items] : groups) {
      total_ += items.size();
      waiting_.push_back({key, std::move(items)});
    }
    // Long ones first, so that none is left alone at the end.
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
      return a.items.size() * a.key.ranks > b.items.size() * b.key.ranks;
    });
  }

  void run(Steady::time_point until) {
    while (!waiting_.empty() || !running_.empty()) {
      while (running_.size() < std::max(1u, options_.at_once) && !waiting_.empty()) {
        if (Steady::now() >= until) {
          waiting_.clear();
          break;
        }
        start();
      }
      wait();
    }
  }

 private:
  struct Running {
    std::unique_ptr<Session> session;
    int restarts;
    Steady::time_point begin;
  };

  void start() {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SessionOptions session;
    session.seed = seed_;
    session.timeout = options_.timeout;
    session.directory = folder_.path();
    running_.push_back(
        {std::make_unique<Session>(next.key, std::move(next.items), session), next.restarts, Steady::now()});
  }

  void wait() {
    std::vector<pollfd> fds;
    for (const Running& one : running_) fds.push_back({one.session->ended_fd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), 100);
    uint64_t now_done = done_;
    for (size_t at = fds.size(); at-- > 0;) {
      now_done += running_[at].session->done();
      running_[at].session->end_if_hung();
      if (fds[at].revents == 0) continue;
      Running ended = std::move(running_[at]);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
      collect(ended);
    }
    if (options_.progress) options_.progress(now_done, total_);
  }

  void collect(Running& ended) {
    const std::vector<ItemResult> results = ended.session->results();
    const std::vector<Item>& items = ended.session->items();
    for (size_t at = 0; at < results.size(); ++at) count(items[at], results[at]);
    if (results.size() == items.size()) return;
    std::vector<Item> rest(items.begin() + static_cast<std::ptrdiff_t>(results.size()), items.end());
    const bool hung = std::chrono::duration<double>(Steady::now() - ended.begin).count() > kHangSeconds;
    const int restarts = ended.restarts + (hung ? kHangRestarts : 1);
    if (restarts <= kMostRestarts) {
      waiting_.push_front({ended.session->key(), std::move(rest), restarts});
      return;
    }
    for (const Item& item : rest) count(item, {Verdict::failed, "not tried: its group broke too often"});
  }

  void count(const Item& item, const ItemResult& result) {
    ++done_;
    ++summary_.cases;
    if (options_.slowest > 0) note_time(item, result.us);
    switch (result.verdict) {
      case Verdict::passed:
        ++summary_.passed;
        break;
      case Verdict::unsupported:
        ++summary_.unsupported;
        break;
      default:
        ++summary_.failed;
        if (options_.failure) options_.failure(item, seed_, result.text);
    }
  }

  void note_time(const Item& item, uint32_t us) {
    auto& list = summary_.slowest;
    const auto at = std::find_if(list.begin(), list.end(), [us](const auto& one) { return one.first < us; });
    list.insert(at, {us, item});
    if (list.size() > options_.slowest) list.pop_back();
  }

  const SuiteOptions& options_;
  uint64_t seed_;
  Summary& summary_;
  Folder folder_;
  std::deque<Waiting> waiting_;
  std::vector<Running> running_;
  uint64_t done_ = 0, total_ = 0;
};

// Of one round, but for the backend's name.
std::vector<Item> items_of_backend(const SuiteOptions& options, const std::string& backend, uint64_t seed) {
  const bool brief = backend != "native" && backend != "auto";
  const std::vector<Wire> wires =
      options.wires.empty() && brief ? std::vector(std::begin(kBriefWires), std::end(kBriefWires)) : options.wires;
  const std::vector<Rank> ranks =
      options.ranks.empty() && brief ? std::vector(std::begin(kBriefRanks), std::end(kBriefRanks)) : options.ranks;
  Space space = everything();
  const auto keep = [&space](Dimension d, auto wanted) {
    std::vector<uint8_t>& values = space.allowed[static_cast<size_t>(d)];
    std::erase_if(values, [&](uint8_t value) { return !wanted(value); });
  };
  if (!wires.empty()) {
    keep(Dimension::wire,
         [&](uint8_t value) { return std::find(wires.begin(), wires.end(), static_cast<Wire>(value)) != wires.end(); });
  }
  if (!ranks.empty()) {
    keep(Dimension::ranks, [&](uint8_t value) {
      const Rank number = static_cast<Rank>(std::stoul(value_names(Dimension::ranks)[value]));
      return std::find(ranks.begin(), ranks.end(), number) != ranks.end();
    });
  }
  if (brief) keep(Dimension::algorithm, [](uint8_t value) { return value == 0; });
  for (const std::vector<uint8_t>& values : space.allowed) {
    if (values.empty()) return {};
  }
  std::vector<Item> items;
  std::vector<GroupKey> groups;
  for (const Row& row : covering_rows(space, seed)) {
    items.push_back(item_of(row));
    groups.push_back(items.back().group);
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const GroupKey& group : groups) {
    for (size_t index = 0; index < refusal_names().size(); ++index) {
      items.push_back({Item::Kind::refusal, group, {}, index});
    }
    for (size_t index = 0; group.ranks > 1 && index < mismatch_names().size(); ++index) {
      items.push_back({Item::Kind::mismatch, group, {}, index});
    }
  }
  return items;
}

}  // namespace

std::vector<Item> items_of_round(const SuiteOptions& options, uint64_t seed) {
  std::vector<Item> items;
  for (const std::string& backend : options.backends) {
    std::vector<Item> more = options.only ? std::vector{*options.only} : items_of_backend(options, backend, seed);
    for (Item& item : more) item.group.backend = backend;
    items.insert(items.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return items;
}

Summary run_suite(const SuiteOptions& options) {
  Summary summary;
  const Steady::time_point begin = Steady::now();
  const bool timed = options.duration.count() > 0;
  const Steady::time_point until = timed ? begin + options.duration : Steady::time_point::max();
  uint64_t seed = options.seed;
  do {
    Round(options, seed++, summary).run(until);
  } while (timed && Steady::now() < until && !options.only);
  summary.seconds = std::chrono::duration<double>(Steady::now() - begin).count();
  return summary;
}

}  // namespace regroup::conformance
