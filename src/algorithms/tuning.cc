// SPDX-License-Identifier: Apache-2.0
#include "algorithms/tuning.h"

#include <charconv>

#include "algorithms/catalogue.h"
#include "base/hash.h"

namespace regroup::algorithms {

namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr size_t kMostQuoted = 40;
constexpr size_t kWords = 5;

// Words between blanks, up to a #; one more than a row has is enough to see that there are too many.
std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  size_t at = 0;
  while (words.size() <= kWords && (at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// The file may be anything, and the message goes to a terminal.
std::string quoted(std::string_view word) {
  std::string text = "\"";
  for (const char c : word.substr(0, kMostQuoted)) text += c > ' ' && c < 0x7f ? c : '?';
  return text + (word.size() > kMostQuoted ? "…\"" : "\"");
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<uint64_t> bytes_of(std::string_view text) {
  if (text == "any") return kAnySize;
  constexpr std::string_view units = "KMG";
  unsigned shift = 0;
  if (!text.empty() && units.find(text.back()) != std::string_view::npos) {
    shift = 10 * (static_cast<unsigned>(units.find(text.back())) + 1);
    text.remove_suffix(1);
  }
  const std::optional<uint64_t> number = number_of(text);
  if (!number || *number > (kAnySize >> shift)) return std::nullopt;
  return *number << shift;
}

std::optional<Ranks> ranks_of(std::string_view text) {
  if (text == "any") return Ranks();
  const size_t dash = text.find('-');
  const auto least = number_of(text.substr(0, dash));
  const std::string_view rest = dash == std::string_view::npos ? text : text.substr(dash + 1);
  const auto most = rest.empty() ? uint64_t{Ranks().most} : number_of(rest);
  if (!least || !most || *least < 1 || *least > *most || *most > Ranks().most) return std::nullopt;
  return Ranks{static_cast<Rank>(*least), static_cast<Rank>(*most)};
}

std::optional<Where> where_of(std::string_view text) {
  for (const Where where : {Where::anywhere, Where::shared, Where::staged, Where::by_host, Where::messages}) {
    if (text == name(where)) return where;
  }
  return std::nullopt;
}

std::string known_algorithms(std::string_view collective) {
  std::string known;
  for (const Algorithm& algorithm : catalogue()) {
    if (name(algorithm.collective) == collective) known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return known;
}

// The problem, or nothing and a row.
std::string parse_row(const std::vector<std::string_view>& words, Tuning::Row* row) {
  if (words.size() != kWords) return "a row is five words: collective, where, ranks, bytes up to, algorithm";
  const std::string known = known_algorithms(words[0]);
  if (known.empty()) return "there are no algorithms for " + quoted(words[0]) + " to choose from";
  const auto where = where_of(words[1]);
  if (!where) return quoted(words[1]) + " is no place: shared, staged, by_host, messages or anywhere";
  const auto ranks = ranks_of(words[2]);
  if (!ranks) return quoted(words[2]) + " is no number of ranks, like 4, 2-8, 9- or any";
  const auto up_to = bytes_of(words[3]);
  if (!up_to) return quoted(words[3]) + " is no number of bytes, like 65536, 64K or any";
  row->algorithm = nullptr;
  for (const Algorithm& algorithm : catalogue()) {
    if (name(algorithm.collective) == words[0] && algorithm.name == words[4]) row->algorithm = &algorithm;
  }
  if (row->algorithm == nullptr) {
    return "no algorithm " + quoted(words[4]) + " for " + std::string(words[0]) + "; there are: " + known;
  }
  row->where = *where;
  row->ranks = *ranks;
  row->up_to = *up_to;
  return {};
}

uint64_t hash_of(const Tuning::Row& row, uint64_t hash) {
  hash = base::mix(hash, static_cast<uint64_t>(row.algorithm->collective) << 8 | static_cast<uint64_t>(row.where));
  hash = base::mix(base::hash_bytes(row.algorithm->name, hash), row.up_to);
  return base::mix(hash, uint64_t{row.ranks.least} << 32 | row.ranks.most);
}

}  // namespace

std::string_view name(Where where) {
  constexpr std::string_view names[] = {"anywhere", "shared", "staged", "by_host", "messages"};
  return names[static_cast<size_t>(where)];
}

std::optional<Tuning> Tuning::parse(std::string_view text, const std::string& origin, std::string* problem) {
  Tuning table;
  bool named = false;
  size_t number = 0;
  const auto refuse = [&](const std::string& what) {
    *problem = origin + ":" + std::to_string(number) + ": " + what;
    return std::nullopt;
  };
  if (text.size() > kMostBytes) return refuse("more than " + std::to_string(kMostBytes) + " bytes are no table");
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    if (!named) {
      const size_t blank = kFormat.find(' ');
      named = words.size() == 2 && words[0] == kFormat.substr(0, blank) && words[1] == kFormat.substr(blank + 1);
      if (!named) return refuse("a table begins with \"" + std::string(kFormat) + "\", not with " + quoted(words[0]));
      continue;
    }
    if (table.rows_.size() == kMostRows) return refuse("more than " + std::to_string(kMostRows) + " rows");
    Row row;
    if (const std::string wrong = parse_row(words, &row); !wrong.empty()) return refuse(wrong);
    row.place = origin + ":" + std::to_string(number);
    table.hash_ = hash_of(row, table.hash_);
    table.rows_.push_back(std::move(row));
  }
  if (!named) return refuse("a table begins with \"" + std::string(kFormat) + "\"; here is nothing");
  return table;
}

}  // namespace regroup::algorithms
