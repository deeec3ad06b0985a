// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"
#include "launcher.h"
#include "verbs.h"

namespace regroup::tool {

void add_run(CLI::App& app, const std::vector<std::string>& program, int* status) {
  CLI::App* verb = app.add_subcommand("run", "Start a program's ranks on this host: regroup run -n 4 -- PROGRAM ARGS");
  static LaunchOptions options;
  static std::chrono::nanoseconds timeout{0};
  add_count(*verb, "-n,--ranks", &options.ranks, 1, 4096, "how many ranks")->required();
  add_duration(*verb, "--timeout", &timeout, "end all ranks after this time, with exit status 124");
  add_duration(*verb, "--grace", &options.grace, "from SIGTERM to SIGKILL when ranks are ended (3s)");
  verb->add_flag("--json", options.json, "a summary at the end as a JSON object");
  verb->footer(
      "Ranks get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, REGROUP_RANK,\n"
      "REGROUP_SIZE and REGROUP_STORE. The exit status is the first failure's; 128 + signal for a rank that a\n"
      "signal ended. The whole tree of processes ends with it.");
  verb->callback([&program, status] {
    if (program.empty()) throw CLI::ValidationError("PROGRAM", "is missing: regroup run -n 4 -- PROGRAM ARGS");
    options.program = program;
    if (timeout.count() > 0) options.timeout = timeout;
    *status = launch(options);
  });
}

}  // namespace regroup::tool
