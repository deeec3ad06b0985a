// SPDX-License-Identifier: Apache-2.0
// The main job: 4 ranks exchange a 64 MB list of buffers by all_to_all, in every way that this build has.
#include <algorithm>

#include "arguments.h"
#include "measurement.h"
#include "output.h"
#include "profile.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

struct Contender {
  const char* title;
  const char* backend;
  const char* transport;
  bool mapped;
  const char* explanation;
};

constexpr Contender kContenders[] = {
    {"shared memory, mapped", "native", "shm", true, "buffers from regroup::allocate: peers read them where they lie"},
    {"shared memory, ordinary", "native", "shm", false, "any memory, such as a std::vector"},
    {"TCP over loopback", "native", "tcp", false, "what would go between hosts"},
};

struct Options {
  uint32_t ranks = 4;
  uint64_t bytes = 64 << 20;
  uint32_t iterations = 7;
  bool json = false;
};

struct Outcome {
  const Contender* contender;
  std::string problem;
  double p50_us = 0, floor_us = 0;
  bool equal = false;
  uint64_t bytes = 0;
};

Outcome try_one(const Options& options, const Contender& contender) {
  Measurement what;
  what.backend = contender.backend;
  what.call.collective = Collective::all_to_all;
  what.call.ranks = options.ranks;
  what.call.transport = contender.transport;
  what.sizes = {options.bytes};
  what.call.mapped = contender.mapped;
  what.check = true;
  what.iterations = options.iterations;
  Outcome outcome{&contender, {}, 0, 0, false, 0};
  Progress bar(contender.title, "calls");
  outcome.problem = measure(
      what,
      [&](const Measured& measured) {
        bar.clear();
        outcome.p50_us = measured.p50_us;
        outcome.floor_us = measured.floor_us;
        outcome.equal = measured.equal.value_or(false);
        outcome.bytes = measured.bytes;
        if (!options.json) print_profile(measured);
      },
      [&](uint64_t done, uint64_t planned) { bar.update(done, planned); });
  return outcome;
}

void print_comparison(const std::vector<Outcome>& outcomes) {
  print("\n{:<26} {:>12} {:>9} {:>9} {:>14} {:>8}\n", "Comparison", "median", "GB/s", "ratio", "floor", "equal");
  const double first = outcomes.front().p50_us;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.problem.empty()) {
      print("{:<26} did not run: {}\n", outcome.contender->title, outcome.problem);
      continue;
    }
    print("{:<26} {:>12} {:>9.2f} {:>8.2f}x {:>14} {:>8}\n", outcome.contender->title, human_us(outcome.p50_us),
          static_cast<double>(outcome.bytes) / outcome.p50_us / 1e3, first > 0 ? outcome.p50_us / first : 0,
          human_us(outcome.floor_us), outcome.equal ? "True" : "False");
  }
  print("(median time of the slowest rank; floor: the same bytes by bare copies, or by bare sockets for TCP)\n");
}

void print_as_json(const Options& options, const Outcome& outcome) {
  Json object;
  object["collective"] = "all_to_all";
  object["ranks"] = options.ranks;
  object["bytes"] = outcome.bytes;
  object["contender"] = "regroup";
  object["backend"] = outcome.contender->backend;
  object["transport"] = outcome.contender->transport;
  object["memory"] = outcome.contender->mapped ? "mapped" : "ordinary";
  if (!outcome.problem.empty()) {
    object["reason"] = outcome.problem;
  } else {
    object["p50_us"] = outcome.p50_us;
    object["floor_us"] = outcome.floor_us;
    object["algbw_gb_per_s"] = static_cast<double>(outcome.bytes) / outcome.p50_us / 1e3;
  }
  object["equal"] = outcome.equal;
  print_json(object);
}

int show(const Options& options) {
  if (!options.json) {
    print(
        "{} processes each hold a list of {} buffers, {} in all, and send one to every rank (all_to_all).\n"
        "Each way below does the same {} times; rank 0's time is broken down, and every element is compared.\n",
        options.ranks, options.ranks, human_bytes(options.bytes), options.iterations);
  }
  std::vector<Outcome> outcomes;
  for (const Contender& contender : kContenders) {
    if (!options.json) print("\n{} ({})\n", contender.title, contender.explanation);
    std::fflush(stdout);
    outcomes.push_back(try_one(options, contender));
    if (options.json)
      print_as_json(options, outcomes.back());
    else if (!outcomes.back().problem.empty())
      print("did not run: {}\n", outcomes.back().problem);
  }
  // Each is compared with the one right answer, so outputs that are right are equal among each other.
  const bool equal = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& one) { return one.equal; });
  if (!options.json) {
    print_comparison(outcomes);
    print("\nall outputs equal: {}\n", equal ? "True" : "False");
  }
  return equal ? kWorked : kFailed;
}

}  // namespace

void add_demo(CLI::App& app, int* status) {
  CLI::App* verb = app.add_subcommand("demo", "Exchange 64 MB among 4 ranks in every way, and compare");
  static Options options;
  add_count(*verb, "-n,--ranks", &options.ranks, 1, 64, "how many ranks (4)");
  add_size(*verb, "--bytes", &options.bytes, "of each rank's list (64M)");
  add_count(*verb, "--iterations", &options.iterations, 1, 1000, "calls each (7)");
  verb->add_flag("--json", options.json, "one JSON object for each way");
  verb->callback([status] { *status = show(options); });
}

}  // namespace regroup::tool
