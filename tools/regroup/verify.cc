// SPDX-License-Identifier: Apache-2.0
#include "verify/suite.h"

#include <thread>

#include "algorithms/catalogue.h"
#include "arguments.h"
#include "output.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

struct Options {
  std::vector<uint32_t> ranks;
  bool json = false;
};

int verify_all(const Options& options) {
  verify::SuiteOptions suite;
  suite.algorithms = algorithms::catalogue();
  suite.threads = std::max(1u, std::thread::hardware_concurrency());
  const Rank first = options.ranks.empty() ? 1 : options.ranks.front();
  const Rank last = options.ranks.empty() ? 64 : options.ranks.back();
  if (!options.json) note("proving {} algorithms for {} to {} ranks\n", suite.algorithms.size(), first, last);
  const verify::SuiteResult result = verify::run_suite(first, last, suite);
  for (const std::string& failure : result.failures) note("{}\n", failure);
  if (options.json) {
    Json object;
    object["schedules"] = result.schedules;
    object["proved"] = result.proved;
    object["failed"] = result.failed;
    object["seconds"] = result.seconds;
    object["sets"] = result.sets;
    object["steps"] = result.steps;
    print_json(object);
  } else {
    print("{} schedules ({} steps) in {} sets: {} proved, {} failed, {:.1f} s\n", result.schedules, result.steps,
          result.sets, result.proved, result.failed, result.seconds);
  }
  return result.failed == 0 && result.complete ? kWorked : kFailed;
}

}  // namespace

void add_verify(CLI::App& app, int* status) {
  CLI::App* verb = app.add_subcommand("verify", "Prove every planner's schedules symbolically");
  static Options options;
  add_ranges(*verb, "--ranks", &options.ranks, 1, 1024, "numbers of ranks (1-64)");
  verb->add_flag("--json", options.json, "one JSON object");
  verb->callback([status] { *status = verify_all(options); });
}

}  // namespace regroup::tool
