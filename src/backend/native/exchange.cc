// SPDX-License-Identifier: Apache-2.0
#include "backend/native/exchange.h"

namespace regroup::backend::native {

namespace {

// The keys of one exchange: "<name>/<round>/<rank>". `round` counts this rank's exchanges under that name, which are as
// many on every rank. The last rank to have read everything deletes the keys.
struct Meeting {
  std::shared_ptr<Store> store;
  std::string name;
  Rank rank, size;

  std::string key(int64_t round, Rank of) const {
    return name + "/" + std::to_string(round) + "/" + std::to_string(of);
  }

  Status late(int64_t round, base::Duration waited) const {
    std::vector<Rank> missing;
    std::string text;
    for (Rank r = 0; r < size; ++r) {
      const Result<bool> there = store->check({key(round, r)});
      if (!there.ok() || *const_cast<Result<bool>&>(there)) continue;
      missing.push_back(r);
      if (missing.size() <= 8) text += (missing.size() > 1 ? ", " : "") + std::to_string(r);
    }
    if (missing.size() > 8) text += ", …";
    return Status(StatusCode::timeout,
                  "joining \"" + name + "\": " + std::to_string(missing.size()) + " of " + std::to_string(size) +
                      " ranks did not come within " +
                      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count()) +
                      " ms: " + text,
                  missing);
  }

  Result<std::vector<std::string>> run(const std::string& mine, base::Time deadline) {
    const base::Time began = base::Clock::now();
    Result<int64_t> round = store->add(name + "/rounds/" + std::to_string(rank), 1);
    if (!round.ok()) return round.status();
    if (Status set = store->set(key(*round, rank), mine); !set.ok()) return set;
    std::vector<std::string> keys;
    for (Rank r = 0; r < size; ++r) keys.push_back(key(*round, r));
    const base::Duration left = deadline - base::Clock::now();
    if (left <= base::Duration(0)) return late(*round, base::Clock::now() - began);
    if (Status all = store->wait(keys, left); !all.ok()) {
      return all.code() == StatusCode::timeout ? late(*round, base::Clock::now() - began) : all;
    }
    auto texts = store->multi_get(keys, left);
    if (!texts.ok()) return texts.status();
    const std::string readers = name + "/" + std::to_string(*round) + "/readers";
    Result<int64_t> read = store->add(readers, 1);
    if (read.ok() && *read == static_cast<int64_t>(size)) {
      keys.push_back(readers);
      for (const std::string& used : keys) (void)store->delete_key(used);
    }
    return texts;
  }
};

}  // namespace

Exchange exchange_through(std::shared_ptr<Store> store, std::string name, Rank rank, Rank size) {
  auto meeting = std::make_shared<Meeting>(Meeting{std::move(store), std::move(name), rank, size});
  return [meeting](const std::string& mine, base::Time deadline) { return meeting->run(mine, deadline); };
}

}  // namespace regroup::backend::native
