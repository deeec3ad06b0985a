// SPDX-License-Identifier: Apache-2.0
// The verbs of the tool. Each adds its subcommand with its options; chosen, it leaves its exit status in `*status`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace regroup::tool {

// Exit statuses.
inline constexpr int kWorked = 0, kFailed = 1, kUsage = 2;

// The subcommand of that name; nullptr if there is none.
inline const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_name() == name) return verb;
  }
  return nullptr;
}

void add_run(CLI::App& app, const std::vector<std::string>& program, int* status);
void add_bench(CLI::App& app, int* status);
void add_verify(CLI::App& app, int* status);
void add_conformance(CLI::App& app, int* status);
void add_chaos(CLI::App& app, int* status);
void add_plan(CLI::App& app, int* status);
void add_capabilities(CLI::App& app, int* status);
void add_store(CLI::App& app, int* status);
void add_demo(CLI::App& app, int* status);
// After all others, which it explains.
void add_help(CLI::App& app, int* status);

}  // namespace regroup::tool
