// SPDX-License-Identifier: Apache-2.0
// One thing that a group is asked to do: a case, a refusal or a mismatch; and where.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conformance/case.h"

namespace regroup::conformance {

// The group in which it runs. Made once, for all its items.
struct GroupKey {
  Wire wire = Wire::shm;
  Rank ranks = 1;
  Launch launch = Launch::threads;
  std::string backend = "native";  // as JoinOptions::backend takes it
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

struct Item {
  enum class Kind : uint8_t { a_case, refusal, mismatch };
  Kind kind = Kind::a_case;
  GroupKey group;
  Row row{};         // of a case
  size_t index = 0;  // of a refusal or mismatch
};

Item item_of(const Row& row);
// "all_reduce:float32:…", "refusal:null_with_count:tcp:3:threads", "mismatch:count:shm:2:forked"; and the inverse, for
// the backend native.
std::string id_of(const Item& item);
std::optional<Item> parse_item(std::string_view id);

}  // namespace regroup::conformance
