// SPDX-License-Identifier: Apache-2.0
// What every store can do in terms of its other calls.
#include "regroup/store.h"

#include "base/clock.h"

namespace regroup {

Result<std::vector<std::string>> Store::multi_get(const std::vector<std::string>& keys, Duration limit) {
  const Duration whole = limit < Duration(0) ? timeout() : limit;
  const base::Time deadline = base::deadline_after(whole);
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    Result<std::string> value = get(key, std::max(Duration(0), Duration(deadline - base::Clock::now())));
    if (!value.ok()) return value.status();
    values.push_back(std::move(*value));
  }
  return values;
}

Status Store::multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  if (keys.size() != values.size()) {
    return Status(StatusCode::invalid_argument, "multi_set: " + std::to_string(keys.size()) + " keys and " +
                                                    std::to_string(values.size()) + " values");
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Status status = set(keys[i], values[i]); !status.ok()) return status;
  }
  return {};
}

}  // namespace regroup
