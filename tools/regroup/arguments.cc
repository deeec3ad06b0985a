// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace regroup::tool {

namespace {

bool parse_whole(std::string_view text, uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

[[noreturn]] void refuse(const std::string& option, const std::string& takes, const std::string& got) {
  throw CLI::ValidationError(option, fmt::format("takes {}, not \"{}\"", takes, got));
}

// The long name of an option: "--bytes" of "-b,--bytes"; "COLLECTIVE" of a positional.
std::string shown(const std::string& names) {
  const size_t comma = names.rfind(',');
  return comma == std::string::npos ? names : names.substr(comma + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == separator)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

bool parse_range(const std::string& text, uint64_t* first, uint64_t* last) {
  const size_t dash = text.find('-');
  if (dash == std::string::npos) {
    if (!parse_whole(text, first)) return false;
    *last = *first;
    return true;
  }
  return parse_whole(std::string_view(text).substr(0, dash), first) &&
         parse_whole(std::string_view(text).substr(dash + 1), last);
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  uint64_t number = 0;
  if (!parse_whole(text.substr(0, digits), &number)) return std::nullopt;
  std::string unit(text.substr(digits));
  if (unit.size() > 1 && (unit.back() == 'B' || unit.back() == 'b')) unit.pop_back();
  if (unit.size() > 1 && unit.back() == 'i') unit.pop_back();
  if (unit.empty() || unit == "B" || unit == "b") return number;
  const size_t power = std::string_view("KMGTkmgt").find(unit);
  if (unit.size() != 1 || power == std::string_view::npos) return std::nullopt;
  const int shift = 10 * static_cast<int>(power % 4 + 1);
  if (number > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() || !(number >= 0) || !std::isfinite(number)) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1e9},         {"s", 1e9},       {"ms", 1e6},
                                                            {"us", 1e3},       {"ns", 1.0},      {"m", 60 * 1e9},
                                                            {"min", 60 * 1e9}, {"h", 3600 * 1e9}};
  for (const auto& [name, nanoseconds] : kUnits) {
    if (unit != name) continue;
    if (number * nanoseconds > 9e18) return std::nullopt;
    return std::chrono::nanoseconds(std::llround(number * nanoseconds));
  }
  return std::nullopt;
}

std::optional<std::vector<uint32_t>> parse_ranges(std::string_view text, uint32_t least, uint32_t most) {
  std::vector<uint32_t> numbers;
  for (const std::string& word : split(std::string(text), ',')) {
    uint64_t first = 0, last = 0;
    if (!parse_range(word, &first, &last) || first > last || first < least || last > most) return std::nullopt;
    for (uint64_t number = first; number <= last; ++number) numbers.push_back(static_cast<uint32_t>(number));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

CLI::Option* add_size(CLI::App& app, const std::string& names, uint64_t* to, const std::string& what) {
  return app
      .add_option_function<std::string>(
          names,
          [to, option = shown(names)](const std::string& text) {
            const std::optional<uint64_t> size = parse_size(text);
            if (!size) refuse(option, "a size like 4096, 64K or 64M (powers of 1024)", text);
            *to = *size;
          },
          what)
      ->type_name("SIZE");
}

CLI::Option* add_duration(CLI::App& app, const std::string& names, std::chrono::nanoseconds* to,
                          const std::string& what) {
  return app
      .add_option_function<std::string>(
          names,
          [to, option = shown(names)](const std::string& text) {
            const std::optional<std::chrono::nanoseconds> duration = parse_duration(text);
            if (!duration || duration->count() == 0) refuse(option, "a duration like 500ms, 5s or 2m", text);
            *to = *duration;
          },
          what)
      ->type_name("DURATION");
}

CLI::Option* add_ranges(CLI::App& app, const std::string& names, std::vector<uint32_t>* to, uint32_t least,
                        uint32_t most, const std::string& what) {
  return app
      .add_option_function<std::string>(
          names,
          [=, option = shown(names)](const std::string& text) {
            const std::optional<std::vector<uint32_t>> numbers = parse_ranges(text, least, most);
            if (!numbers) {
              refuse(option, fmt::format("numbers from {} to {} like 4, 1-8 or 1,2,5-7", least, most), text);
            }
            *to = *numbers;
          },
          what)
      ->type_name("RANGE");
}

CLI::Option* add_count(CLI::App& app, const std::string& names, uint32_t* to, uint32_t least, uint32_t most,
                       const std::string& what) {
  return app
      .add_option_function<std::string>(
          names,
          [=, option = shown(names)](const std::string& text) {
            uint64_t number = 0;
            if (!parse_whole(text, &number) || number < least || number > most) {
              refuse(option, fmt::format("a number from {} to {}", least, most), text);
            }
            *to = static_cast<uint32_t>(number);
          },
          what)
      ->type_name("N");
}

CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string* to, std::vector<std::string> known,
                        const std::string& what) {
  return app
      .add_option_function<std::string>(
          names,
          [=, option = shown(names)](const std::string& text) {
            if (std::find(known.begin(), known.end(), text) == known.end()) {
              refuse(option, fmt::format("one of {}", fmt::join(known, ", ")), text);
            }
            *to = text;
          },
          what)
      ->type_name("NAME");
}

CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<std::string>* to,
                      std::vector<std::string> known, const std::string& what) {
  return app
      .add_option_function<std::string>(
          names,
          [=, option = shown(names)](const std::string& text) {
            to->clear();
            for (const std::string& word : split(text, ',')) {
              if (std::find(known.begin(), known.end(), word) == known.end()) {
                refuse(option, fmt::format("some of {} with commas between", fmt::join(known, ", ")), word);
              }
              if (std::find(to->begin(), to->end(), word) == to->end()) to->push_back(word);
            }
          },
          what)
      ->type_name("NAME,…");
}

namespace {

// The names of an enumeration with `count` values.
template <typename Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int value = 0; value < count; ++value) names.emplace_back(name(static_cast<Enum>(value)));
  return names;
}

template <typename Enum>
CLI::Option* add_enum(CLI::App& app, const std::string& option, std::vector<std::string> known, const std::string& what,
                      std::function<void(Enum)> set) {
  return app
      .add_option_function<std::string>(
          option,
          [=](const std::string& text) {
            Enum value{};
            if (std::find(known.begin(), known.end(), text) == known.end() || !parse(text, &value)) {
              refuse(option, fmt::format("one of {}", fmt::join(known, ", ")), text);
            }
            set(value);
          },
          what)
      ->type_name("NAME");
}

}  // namespace

CLI::Option* add_collective(CLI::App& app, Collective* to) {
  std::vector<std::string> known = names_of<Collective>(static_cast<int>(Collective::all_to_all) + 1);
  const std::string what = fmt::format("{}", fmt::join(known, ", "));
  return add_enum<Collective>(app, "COLLECTIVE", std::move(known), what, [to](Collective value) { *to = value; })
      ->required()
      ->type_name("");
}

CLI::Option* add_type(CLI::App& app, DataType* to) {
  return add_enum<DataType>(app, "--dtype", names_of<DataType>(kDataTypes), "type of the elements (float32)",
                            [to](DataType value) { *to = value; });
}

CLI::Option* add_op(CLI::App& app, ReduceOp* to) {
  return add_enum<ReduceOp::Kind>(app, "--op", names_of<ReduceOp::Kind>(kReduceOps), "how to reduce (sum)",
                                  [to](ReduceOp::Kind kind) {
                                    *to = {kind, kind == ReduceOp::Kind::premultiplied_sum ? 0.5 : 1.0};
                                  });
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return value == std::floor(value) ? fmt::format("{:.0f} {}", value, kUnits[unit])
                                    : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace regroup::tool
