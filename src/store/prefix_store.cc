// SPDX-License-Identifier: Apache-2.0
// A view of another store under a prefix. It counts the other store's keys, and starts with its time-out but keeps its
// own.
#include <atomic>

#include "base/assert.h"
#include "regroup/store.h"

namespace regroup {

namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix) + "/"), store_(std::move(store)), timeout_(store_->timeout()) {}

  Status set(std::string_view key, std::string_view value) override { return store_->set(full(key), value); }
  Result<std::string> get(std::string_view key, Duration timeout) override {
    return store_->get(full(key), resolve(timeout));
  }
  Result<int64_t> add(std::string_view key, int64_t amount) override { return store_->add(full(key), amount); }
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return store_->compare_set(full(key), expected, desired);
  }
  Status append(std::string_view key, std::string_view value) override { return store_->append(full(key), value); }
  Result<bool> check(const std::vector<std::string>& keys) override { return store_->check(full(keys)); }
  Status wait(const std::vector<std::string>& keys, Duration timeout) override {
    return store_->wait(full(keys), resolve(timeout));
  }
  Result<bool> delete_key(std::string_view key) override { return store_->delete_key(full(key)); }
  Result<int64_t> num_keys() override { return store_->num_keys(); }
  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys, Duration timeout) override {
    return store_->multi_get(full(keys), resolve(timeout));
  }
  Status multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) override {
    return store_->multi_set(full(keys), values);
  }
  void set_timeout(Duration timeout) override { timeout_ = timeout < Duration(0) ? store_->timeout() : timeout; }
  Duration timeout() const override { return timeout_; }

 private:
  std::string full(std::string_view key) const { return std::string(prefix_).append(key); }
  std::vector<std::string> full(const std::vector<std::string>& keys) const {
    std::vector<std::string> all;
    all.reserve(keys.size());
    for (const std::string& key : keys) all.push_back(full(key));
    return all;
  }
  Duration resolve(Duration asked) const { return asked < Duration(0) ? timeout() : asked; }

  const std::string prefix_;
  const std::shared_ptr<Store> store_;
  std::atomic<Duration> timeout_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  REGROUP_ASSERT(store != nullptr);
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace regroup
