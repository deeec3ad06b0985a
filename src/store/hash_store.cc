// SPDX-License-Identifier: Apache-2.0
// A store in this process. One lock and one condition: ranks that meet here are threads, and few.
#include <condition_variable>
#include <mutex>

#include "regroup/store.h"
#include "store/table.h"
#include "store/timeout.h"

namespace regroup {

namespace {

class HashStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    table_.set(key, value);
    changed_.notify_all();
    return {};
  }

  Result<std::string> get(std::string_view key, Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (Status status = wait_locked(lock, {std::string(key)}, timeout); !status.ok()) return status;
    return *table_.find(key);
  }

  Result<int64_t> add(std::string_view key, int64_t amount) override {
    const std::lock_guard lock(mutex_);
    Result<int64_t> sum = table_.sum(key, amount);
    if (!sum.ok()) return sum;
    table_.set(key, std::to_string(*sum));
    changed_.notify_all();
    return sum;
  }

  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    const std::lock_guard lock(mutex_);
    store::Table::Comparison comparison = table_.compare(key, expected, desired);
    if (comparison.sets) {
      table_.set(key, desired);
      changed_.notify_all();
    }
    return std::move(comparison.value);
  }

  Status append(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    table_.append(key, value);
    changed_.notify_all();
    return {};
  }

  Result<bool> check(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(mutex_);
    return table_.first_missing(keys) == nullptr;
  }

  Status wait(const std::vector<std::string>& keys, Duration timeout) override {
    std::unique_lock lock(mutex_);
    return wait_locked(lock, keys, timeout);
  }

  Result<bool> delete_key(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    return table_.erase(key);
  }

  Result<int64_t> num_keys() override {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(table_.all().size());
  }

  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys, Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (Status status = wait_locked(lock, keys, timeout); !status.ok()) return status;
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(*table_.find(key));
    return values;
  }

  void set_timeout(Duration timeout) override { timeout_.set(timeout); }
  Duration timeout() const override { return timeout_.get(); }

 private:
  Status wait_locked(std::unique_lock<std::mutex>& lock, const std::vector<std::string>& keys, Duration timeout) {
    const Duration limit = timeout_.resolve(timeout);
    const base::Time deadline = base::deadline_after(limit);
    const std::string* missing;
    while ((missing = table_.first_missing(keys)) != nullptr) {
      if (base::Clock::now() >= deadline) return store::not_set_in_time(*missing, limit);
      changed_.wait_until(lock, deadline);
    }
    return {};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  store::Table table_;
  store::DefaultTimeout timeout_;
};

}  // namespace

std::shared_ptr<Store> make_hash_store() { return std::make_shared<HashStore>(); }

}  // namespace regroup
