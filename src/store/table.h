// SPDX-License-Identifier: Apache-2.0
// What a store holds, and the rules that all stores share. It does not wait and knows no threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "regroup/status.h"

namespace regroup::store {

class Table {
 public:
  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view value);
  bool erase(std::string_view key);

  // nullptr where the key is missing; valid until the next change.
  const std::string* find(std::string_view key) const;
  // The first of `keys` that is missing, nullptr where all are there.
  const std::string* first_missing(const std::vector<std::string>& keys) const;

  // The sum that `add` would store. invalid_argument where the value is not a number or the sum does not fit.
  Result<int64_t> sum(std::string_view key, int64_t amount) const;

  // What `compare_set` would return, and whether it would set `desired`.
  struct Comparison {
    std::string value;
    bool sets = false;
  };
  Comparison compare(std::string_view key, std::string_view expected, std::string_view desired) const;

  const std::map<std::string, std::string, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// `timeout`, naming the key that nobody set.
Status not_set_in_time(std::string_view key, base::Duration waited);

}  // namespace regroup::store
