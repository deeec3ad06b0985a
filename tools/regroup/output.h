// SPDX-License-Identifier: Apache-2.0
// How the tool speaks: results on standard output (for people, or one JSON object a line), notes on standard error.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace regroup::tool {

using Json = nlohmann::ordered_json;

inline void print_json(const Json& object) {
  const std::string line = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stdout, format, std::forward<Args>(args)...);
}

template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  std::fflush(stdout);
  fmt::print(stderr, format, std::forward<Args>(args)...);
}

// A bar with rate and remaining time on standard error, if that is a terminal and the work takes more than a second.
class Progress {
 public:
  Progress(std::string what, std::string unit);
  ~Progress() { clear(); }
  void update(uint64_t done, uint64_t total);
  // Before other output.
  void clear();

 private:
  using Steady = std::chrono::steady_clock;
  std::string what_, unit_;
  bool terminal_;
  bool drawn_ = false;
  Steady::time_point begin_, last_;
};

}  // namespace regroup::tool
