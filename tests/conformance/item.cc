// SPDX-License-Identifier: Apache-2.0
#include "conformance/item.h"

#include <algorithm>
#include <vector>

#include "conformance/member.h"

namespace regroup::conformance {

Item item_of(const Row& row) {
  const Case c = case_of(row);
  Item item;
  item.group.wire = c.wire;
  item.group.ranks = c.ranks;
  item.group.launch = c.launch;
  item.row = row;
  return item;
}

std::string id_of(const Item& item) {
  if (item.kind == Item::Kind::a_case) return id_of(item.row);
  const bool refusal = item.kind == Item::Kind::refusal;
  std::string id = refusal ? "refusal:" : "mismatch:";
  id += refusal ? refusal_names()[item.index] : mismatch_names()[item.index];
  id += ':' + value_names(Dimension::wire)[static_cast<size_t>(item.group.wire)];
  id += ':' + std::to_string(item.group.ranks);
  id += ':' + value_names(Dimension::launch)[static_cast<size_t>(item.group.launch)];
  return id;
}

std::optional<Item> parse_item(std::string_view id) {
  std::vector<std::string> words(1);
  for (const char c : id) {
    if (c == ':')
      words.emplace_back();
    else
      words.back() += c;
  }
  if (words[0] != "refusal" && words[0] != "mismatch") {
    const std::optional<Row> row = row_of(id);
    return row ? std::optional(item_of(*row)) : std::nullopt;
  }
  if (words.size() != 5) return std::nullopt;
  const auto find = [](const std::vector<std::string>& names, const std::string& name) -> std::optional<size_t> {
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names.begin()));
  };
  Item item;
  item.kind = words[0] == "refusal" ? Item::Kind::refusal : Item::Kind::mismatch;
  const auto index = find(item.kind == Item::Kind::refusal ? refusal_names() : mismatch_names(), words[1]);
  const auto wire = find(value_names(Dimension::wire), words[2]);
  const auto ranks = find(value_names(Dimension::ranks), words[3]);
  const auto launch = find(value_names(Dimension::launch), words[4]);
  if (!index || !wire || !ranks || !launch) return std::nullopt;
  item.index = *index;
  item.group.wire = static_cast<Wire>(*wire);
  item.group.ranks = static_cast<Rank>(std::stoul(words[3]));
  item.group.launch = static_cast<Launch>(*launch);
  return item;
}

}  // namespace regroup::conformance
