// SPDX-License-Identifier: Apache-2.0
// The command line tool: finds the verb, and turns what goes wrong into an exit status and a message.
#include <fmt/format.h>

#include <cstring>
#include <exception>

#include "output.h"
#include "verbs.h"

namespace {

using namespace regroup::tool;

// The subcommand that was being parsed; nullptr where none was found.
const CLI::App* chosen(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  return verbs.empty() ? nullptr : verbs.front();
}

int refuse(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = chosen(app);
  const std::string name = verb == nullptr ? "regroup" : "regroup " + verb->get_name();
  std::string message = error.what();
  while (!message.empty() && message.back() == '\n') message.pop_back();
  note("{}: {}\n", name, message);
  if (verb == nullptr)
    note("`regroup help` lists the verbs.\n");
  else
    note("`regroup help {}` says what it takes.\n", verb->get_name());
  return kUsage;
}

int run(int argc, char** argv) {
  // What follows "--" is another program's command line.
  std::vector<std::string> own, program;
  bool after = false;
  for (int at = 1; at < argc; ++at) {
    if (!after && std::strcmp(argv[at], "--") == 0)
      after = true;
    else
      (after ? program : own).emplace_back(argv[at]);
  }

  CLI::App app("Process groups: collectives that are fast on one host, work across hosts, and survive their members.",
               "regroup");
  app.set_version_flag("--version", "regroup " REGROUP_VERSION, "print the version");
  app.require_subcommand(1);
  int status = kWorked;
  add_demo(app, &status);
  add_bench(app, &status);
  add_run(app, program, &status);
  add_plan(app, &status);
  add_verify(app, &status);
  add_conformance(app, &status);
  add_chaos(app, &status);
  add_capabilities(app, &status);
  add_store(app, &status);
  add_help(app, &status);
  if (own.empty()) {
    print("{}", app.help());
    return kUsage;
  }
  try {
    if (!own[0].starts_with('-') && find_verb(app, own[0]) == nullptr) {
      throw CLI::ParseError(fmt::format("\"{}\" is no verb", own[0]), CLI::ExitCodes::ExtrasError);
    }
    if (after && own[0] != "run")
      throw CLI::ParseError("only `run` takes a program after --", CLI::ExitCodes::ExtrasError);
    std::vector<std::string> reversed(own.rbegin(), own.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& request) {
    app.exit(request);
    return kWorked;
  } catch (const CLI::ParseError& error) {
    return refuse(app, error);
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    note("regroup: {}\n", error.what());
    return kFailed;
  }
}
