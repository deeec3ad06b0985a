// SPDX-License-Identifier: Apache-2.0
#include "backend/native/exchange.h"

namespace regroup::backend::native {

namespace {

// The keys of one exchange: "<name>/<round>/<stage>/<rank>". `round` counts this rank's meetings under that name, which
// are as many on every rank, also where one failed halfway; `stage` counts the exchanges of a meeting. The last rank to
// have read everything deletes the keys.
struct Meeting {
  std::shared_ptr<Store> store;
  std::string name;
  Rank rank, size;
  int64_t round = 0;
  int stage = 0;

  std::string key(const std::string& last) const {
    return name + "/" + std::to_string(round) + "/" + std::to_string(stage) + "/" + last;
  }
  std::string key(Rank of) const { return key(std::to_string(of)); }

  Status late(base::Duration waited) const {
    std::vector<Rank> missing;
    std::string text;
    for (Rank r = 0; r < size; ++r) {
      const Result<bool> there = store->check({key(r)});
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
    if (round == 0) {
      const Result<int64_t> added = store->add(name + "/rounds/" + std::to_string(rank), 1);
      if (!added.ok()) return added.status();
      round = added.value();
    }
    ++stage;
    if (Status set = store->set(key(rank), mine); !set.ok()) return set;
    std::vector<std::string> keys;
    for (Rank r = 0; r < size; ++r) keys.push_back(key(r));
    const base::Duration left = deadline - base::Clock::now();
    if (left <= base::Duration(0)) return late(base::Clock::now() - began);
    if (Status all = store->wait(keys, left); !all.ok()) {
      return all.code() == StatusCode::timeout ? late(base::Clock::now() - began) : all;
    }
    auto texts = store->multi_get(keys, left);
    if (!texts.ok()) return texts.status();
    const std::string readers = key("readers");
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
