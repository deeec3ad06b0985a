// SPDX-License-Identifier: Apache-2.0
#include "store/table.h"

#include <charconv>

namespace regroup::store {

void Table::set(std::string_view key, std::string_view value) {
  const auto at = values_.find(key);
  if (at != values_.end()) {
    at->second = value;
  } else {
    values_.emplace(key, value);
  }
}

void Table::append(std::string_view key, std::string_view value) {
  const auto at = values_.find(key);
  if (at != values_.end()) {
    at->second += value;
  } else {
    values_.emplace(key, value);
  }
}

bool Table::erase(std::string_view key) {
  const auto at = values_.find(key);
  if (at == values_.end()) return false;
  values_.erase(at);
  return true;
}

const std::string* Table::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

const std::string* Table::first_missing(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (find(key) == nullptr) return &key;
  }
  return nullptr;
}

Result<int64_t> Table::sum(std::string_view key, int64_t amount) const {
  const std::string* value = find(key);
  int64_t before = 0;
  if (value != nullptr) {
    const char* last = value->data() + value->size();
    const auto [end, error] = std::from_chars(value->data(), last, before);
    if (error != std::errc() || end != last) {
      return Status(StatusCode::invalid_argument,
                    "add: the value of key \"" + std::string(key) + "\" is not a decimal number of 64 bits");
    }
  }
  int64_t after;
  if (__builtin_add_overflow(before, amount, &after)) {
    return Status(StatusCode::invalid_argument, "add: key \"" + std::string(key) + "\" would leave the 64-bit range: " +
                                                    std::to_string(before) + " + " + std::to_string(amount));
  }
  return after;
}

Table::Comparison Table::compare(std::string_view key, std::string_view expected, std::string_view desired) const {
  const std::string* value = find(key);
  const bool sets = value != nullptr ? *value == expected : expected.empty();
  if (sets) return {std::string(desired), true};
  return {value != nullptr ? *value : std::string(expected), false};
}

Status not_set_in_time(std::string_view key, base::Duration waited) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
  return Status(StatusCode::timeout,
                "nobody set key \"" + std::string(key) + "\" within " + std::to_string(milliseconds) + " ms");
}

}  // namespace regroup::store
