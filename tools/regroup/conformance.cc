// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "arguments.h"
#include "conformance/suite.h"
#include "output.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

constexpr uint64_t kMostShown = 100;  // failures

struct Options {
  std::vector<std::string> backends = {"native"};
  std::vector<std::string> transports;
  std::vector<uint32_t> ranks;
  std::string only;
  uint32_t seed = 1;
  uint32_t slowest = 0;
  uint32_t at_once = 0;
  bool full = false;
  std::chrono::nanoseconds time = std::chrono::minutes(10);
  bool json = false;
};

std::vector<conformance::Wire> wires_of(const std::vector<std::string>& transports) {
  using conformance::Wire;
  std::vector<Wire> wires;
  for (const std::string& transport : transports) {
    if (transport == "shm") wires.insert(wires.end(), {Wire::shm, Wire::shm_without_reads});
    if (transport == "tcp") wires.push_back(Wire::tcp);
    if (transport == "mixed") wires.insert(wires.end(), {Wire::two_hosts, Wire::three_hosts});
  }
  return wires;
}

void print_summary(const Options& options, const conformance::Summary& summary) {
  if (options.json) {
    Json object;
    object["cases"] = summary.cases;
    object["passed"] = summary.passed;
    object["failed"] = summary.failed;
    object["unsupported"] = summary.unsupported;
    object["seconds"] = summary.seconds;
    object["backends"] = options.backends;
    print_json(object);
    return;
  }
  print("{} cases: {} passed, {} failed, {} unsupported (and refused as they should be), {:.1f} s\n", summary.cases,
        summary.passed, summary.failed, summary.unsupported, summary.seconds);
}

int run_all(const Options& options) {
  conformance::SuiteOptions suite;
  suite.backends = options.backends;
  suite.wires = wires_of(options.transports);
  suite.ranks = options.ranks;
  suite.seed = options.seed;
  if (options.at_once > 0) suite.at_once = options.at_once;
  suite.slowest = options.slowest;
  if (options.full) suite.duration = options.time;
  if (!options.only.empty()) {
    suite.only = conformance::parse_item(options.only);
    if (!suite.only) {
      note("regroup conformance: --case takes a case's name as a failure prints it, not \"{}\"\n", options.only);
      return kUsage;
    }
  }
  Progress bar("conformance", "cases");
  uint64_t shown = 0;
  suite.progress = [&bar](uint64_t done, uint64_t total) { bar.update(done, total); };
  suite.failure = [&](const conformance::Item& item, uint64_t seed, const std::string& text) {
    if (++shown > kMostShown) return;
    bar.clear();
    const std::string id = conformance::id_of(item);
    note("FAILED {} over {}\n  {}\n  again: regroup conformance --backend {} --seed {} --case {}\n", id,
         item.group.backend, text, item.group.backend, seed, id);
  };
  const conformance::Summary summary = conformance::run_suite(suite);
  bar.clear();
  if (shown > kMostShown) note("… and {} more failures\n", shown - kMostShown);
  for (const auto& [us, item] : summary.slowest) note("{:>9} us {}\n", us, conformance::id_of(item));
  print_summary(options, summary);
  return summary.failed == 0 && summary.cases > 0 ? kWorked : kFailed;
}

}  // namespace

void add_conformance(CLI::App& app, int* status) {
  CLI::App* verb =
      app.add_subcommand("conformance", "Try every collective, type, operator and edge case on this machine");
  static Options options;
  verb->add_option("--backend", options.backends, "which backends, with commas between (native)")
      ->delimiter(',')
      ->type_name("NAME,…");
  add_list(*verb, "--transport", &options.transports, {"shm", "tcp", "mixed"},
           "which transports (all); mixed: ranks that count as being on several hosts");
  add_ranges(*verb, "-n", &options.ranks, 1, 17, "numbers of ranks (1-8,13,17)");
  add_count(*verb, "--seed", &options.seed, 1, 4000000000, "other cases and values (1)");
  verb->add_option("--case", options.only, "one case alone, by the name that a failure prints");
  add_count(*verb, "--at-once", &options.at_once, 1, 64, "groups that run at the same time (2)");
  add_count(*verb, "--slowest", &options.slowest, 1, 1000, "name so many of the slowest cases");
  verb->add_flag("--full", options.full, "go on with other cases until --time is up");
  add_duration(*verb, "--time", &options.time, "how long with --full (10m)");
  verb->add_flag("--json", options.json, "one JSON object");
  verb->callback([status] { *status = run_all(options); });
}

}  // namespace regroup::tool
