// SPDX-License-Identifier: Apache-2.0
// A small key-value store by which ranks find each other. All implementations mean the same by the same call, and the
// same as torch's TCPStore; values are bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/status.h"

namespace regroup {

// Thread safe. Every call that can wait has a deadline: `timeout`, or the store's default of 5 minutes.
class Store {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kDefault = Duration(-1);  // "the store's own time-out"

  virtual ~Store() = default;

  virtual Status set(std::string_view key, std::string_view value) = 0;
  // Waits until the key is there. `timeout` after the deadline, naming the key.
  virtual Result<std::string> get(std::string_view key, Duration timeout = kDefault) = 0;
  // Adds to a decimal number (a missing key counts as 0) and returns the sum.
  virtual Result<int64_t> add(std::string_view key, int64_t amount) = 0;
  // Sets `desired` if the value is `expected`, or if the key is missing and `expected` is empty. Returns the resulting
  // value; for a missing key with a non-empty `expected`, returns `expected` and sets nothing.
  virtual Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                          std::string_view desired) = 0;
  // Appends; a missing key counts as empty.
  virtual Status append(std::string_view key, std::string_view value) = 0;
  // Whether all keys are there, at once.
  virtual Result<bool> check(const std::vector<std::string>& keys) = 0;
  // Waits until all keys are there.
  virtual Status wait(const std::vector<std::string>& keys, Duration timeout = kDefault) = 0;
  // Whether the key was there.
  virtual Result<bool> delete_key(std::string_view key) = 0;
  virtual Result<int64_t> num_keys() = 0;
  // As so many `get`s and `set`s, in one round trip where the store can.
  virtual Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys, Duration timeout = kDefault);
  virtual Status multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values);

  virtual void set_timeout(Duration timeout) = 0;
  virtual Duration timeout() const = 0;
};

// A store in this process, for threads as ranks.
std::shared_ptr<Store> make_hash_store();

// A view of `store` in which every key is prefixed by "<prefix>/".
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

// "tcp://host:port", "tcp://host:port/prefix", "file:///path"; waits until it answers or `timeout` passes.
Result<std::shared_ptr<Store>> connect_store(const std::string& url,
                                             std::chrono::nanoseconds timeout = std::chrono::minutes(5));

// A store served by this process until the last copy goes. `address()` is "host:port" with the port that was bound.
class StoreServer {
 public:
  virtual ~StoreServer() = default;
  virtual std::string address() const = 0;
};

// "tcp://host:port"; port 0 lets the system choose. Speaks the wire format of torch's TCPStore, so that its clients can
// use it too.
Result<std::shared_ptr<StoreServer>> serve_store(const std::string& url);

}  // namespace regroup
