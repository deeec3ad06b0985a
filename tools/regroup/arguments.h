// SPDX-License-Identifier: Apache-2.0
// What options take: sizes, durations, ranges, names. Each refusal names the option, what it takes and what it got.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/types.h"

namespace regroup::tool {

// "4096", "64K", "64M", "1G": powers of 1024, an optional B or iB at the end.
std::optional<uint64_t> parse_size(std::string_view text);
// "500ms", "5s", "2m", "1h", "250us"; a bare number is seconds.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
// "1-8", "4", "1,2,13-17": ascending, without repetition.
std::optional<std::vector<uint32_t>> parse_ranges(std::string_view text, uint32_t least, uint32_t most);

// Each adds an option that writes `*to`; `what` is its help.
CLI::Option* add_size(CLI::App& app, const std::string& names, uint64_t* to, const std::string& what);
CLI::Option* add_duration(CLI::App& app, const std::string& names, std::chrono::nanoseconds* to,
                          const std::string& what);
CLI::Option* add_ranges(CLI::App& app, const std::string& names, std::vector<uint32_t>* to, uint32_t least,
                        uint32_t most, const std::string& what);
CLI::Option* add_count(CLI::App& app, const std::string& names, uint32_t* to, uint32_t least, uint32_t most,
                       const std::string& what);
// One of `known`.
CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string* to, std::vector<std::string> known,
                        const std::string& what);
// Several of `known`, with commas between.
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<std::string>* to,
                      std::vector<std::string> known, const std::string& what);
CLI::Option* add_collective(CLI::App& app, Collective* to);
CLI::Option* add_type(CLI::App& app, DataType* to);
CLI::Option* add_op(CLI::App& app, ReduceOp* to);

// For people: "64 MB" for 64 · 1024², "1.5 KB", "12 B".
std::string human_bytes(uint64_t bytes);

}  // namespace regroup::tool
