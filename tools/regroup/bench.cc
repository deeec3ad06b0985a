// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "arguments.h"
#include "executor/team.h"
#include "measurement.h"
#include "output.h"
#include "overlap.h"
#include "profile.h"
#include "tune.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

struct Options {
  Measurement what;
  uint64_t bytes = 1 << 20;
  bool sweep = false;
  std::string memory = "ordinary";
  bool profile = false;
  bool json = false;
  std::vector<uint32_t> ranks;
  std::string algorithm;
  bool tune = false;
  std::string output = "regroup-tuning.txt";
};

// 8 B to 64 MB by eights.
std::vector<uint64_t> swept_sizes() {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 8; bytes < (64 << 20); bytes *= 8) sizes.push_back(bytes);
  sizes.push_back(64 << 20);
  return sizes;
}

double algbw(uint64_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us / 1e3 : 0; }

Json phases_of(const Measured& measured) {
  Json phases = Json::array();
  for (const contest::Phase& phase : measured.phases) {
    if (phase.calls > 0) phases.push_back({{"name", phase.name}, {"total_us", phase.us}, {"calls", phase.calls}});
  }
  return phases;
}

// By the cost model, which prices schedules: not the eager path.
Json predicted_us(Call call, const Measured& measured) {
  call.bytes = measured.bytes;
  const algorithms::Algorithm* algorithm = algorithms::find(call.collective, measured.algorithm);
  return algorithm != nullptr ? Json(cost_of(*algorithm, call).us) : Json();
}

// What was measured; of a contender that did not run, also why.
Json subject_of(const Options& options, const Measured& measured) {
  const Call& call = options.what.call;
  const bool ours = measured.contender == kUs;
  Json object;
  object["collective"] = name(call.collective);
  object["ranks"] = call.ranks;
  object["bytes"] = measured.bytes;
  object["dtype"] = name(call.type);
  object["op"] = name(options.what.op.kind);
  object["contender"] = measured.contender;
  if (!measured.reason.empty()) {
    object["reason"] = measured.reason;
    return object;
  }
  object["version"] = measured.version;
  object["backend"] = ours ? options.what.backend : measured.contender;
  object["transport"] = ours ? Json(call.transport) : Json();
  object["memory"] = ours ? options.memory : "ordinary";
  object["algorithm"] = ours ? Json(measured.algorithm) : Json();
  object["in_place"] = options.what.in_place;
  object["iterations"] = measured.iterations;
  return object;
}

void print_as_json(const Options& options, const Measured& measured) {
  const Call& call = options.what.call;
  const bool ours = measured.contender == kUs;
  Json object = subject_of(options, measured);
  if (!measured.reason.empty()) {
    print_json(object);
    return;
  }
  object["p50_us"] = measured.p50_us;
  object["min_us"] = measured.min_us;
  object["p99_us"] = measured.p99_us;
  object["algbw_gb_per_s"] = algbw(measured.bytes, measured.p50_us);
  object["busbw_gb_per_s"] = algbw(measured.bytes, measured.p50_us) * bus_factor(call.collective, call.ranks);
  object["equal"] = measured.equal ? Json(*measured.equal) : Json();
  if (ours) object["threads"] = call.threads;
  if (ours) object["predicted_us"] = predicted_us(call, measured);
  if (ours)
    object["floor_us"] = measured.floor_us > 0 ? Json(measured.floor_us) : Json();
  else
    object["ratio"] = measured.ratio;
  if (options.profile && ours) object["profile"] = phases_of(measured);
  print_json(object);
}

void print_heading(const Options& options) {
  const Call& call = options.what.call;
  print("{} among {} ranks{}, {} by {}, {} memory{}, backend {}, transport {}\n", name(call.collective), call.ranks,
        call.threads > 1 ? fmt::format(" of {} threads", call.threads) : "", name(call.type),
        name(options.what.op.kind), options.memory, options.what.in_place ? " (in place)" : "", options.what.backend,
        call.transport);
  if (options.what.overlap) {
    print("{:>10} {:>18} {:>6} {:>14} {:>14} {:>14} {:>9}\n", "bytes", "algorithm", "calls", "communication",
          "computation", "together", "hidden");
    return;
  }
  print("{:>10} {:>18} {:>6} {:>12} {:>12} {:>12} {:>9} {:>9} {:>12} {:>6}\n", "bytes",
        options.what.against.empty() ? "algorithm" : "contender", "calls", "p50", "min", "p99", "algbw", "busbw",
        options.what.against.empty() ? "floor" : "floor, ratio", "equal");
}

void print_line(const Options& options, const Measured& measured) {
  const bool ours = measured.contender == kUs;
  if (!measured.reason.empty()) {
    print("{:>10} {:>18} did not run: {}\n", human_bytes(measured.bytes), measured.contender, measured.reason);
    return;
  }
  const double rate = algbw(measured.bytes, measured.p50_us);
  const std::string floor = measured.floor_us > 0 ? human_us(measured.floor_us) : "-";
  print("{:>10} {:>18} {:>6} {:>12} {:>12} {:>12} {:>9.2f} {:>9.2f} {:>12} {:>6}\n", human_bytes(measured.bytes),
        ours && options.what.against.empty() ? measured.algorithm : measured.contender, measured.iterations,
        human_us(measured.p50_us), human_us(measured.min_us), human_us(measured.p99_us), rate,
        rate * bus_factor(options.what.call.collective, options.what.call.ranks),
        ours ? floor : fmt::format("{:.2f}x", measured.ratio),
        measured.equal ? (*measured.equal ? "true" : "false") : "-");
  std::fflush(stdout);
}

// Of one size, by `Way`.
void print_overlap(const Options& options, const std::vector<Measured>& ways) {
  const Measured& alone = ways[static_cast<size_t>(Way::communication)];
  const Measured& computation = ways[static_cast<size_t>(Way::computation)];
  const Measured& together = ways[static_cast<size_t>(Way::together)];
  if (!alone.reason.empty()) return options.json ? print_as_json(options, alone) : print_line(options, alone);
  const double share = overlap_share(alone.round_p50s_us, computation.round_p50s_us, together.round_p50s_us);
  if (options.json) {
    Json object = subject_of(options, alone);
    object["overlap_share"] = share;
    object["communication_us"] = alone.p50_us;
    object["computation_us"] = computation.p50_us;
    object["together_us"] = together.p50_us;
    print_json(object);
    return;
  }
  print("{:>10} {:>18} {:>6} {:>14} {:>14} {:>14} {:>7.0f} %\n", human_bytes(alone.bytes), alone.algorithm,
        alone.iterations, human_us(alone.p50_us), human_us(computation.p50_us), human_us(together.p50_us), share * 100);
  std::fflush(stdout);
}

int run_bench(Options& options) {
  Measurement& what = options.what;
  what.call.ranks = options.ranks.front();
  what.algorithms = std::vector<std::string>(what.overlap ? kWays : 1, options.algorithm);
  what.floor = !what.overlap;
  what.call.tuning = tuning_of_environment();
  if (what.call.root >= what.call.ranks) throw CLI::ValidationError("--root", "takes a rank below the number of ranks");
  what.call.op = what.op.kind;
  what.sizes = options.sweep ? swept_sizes() : std::vector<uint64_t>{options.bytes};
  if (what.call.collective == Collective::barrier) what.sizes = {0};
  what.call.mapped = options.memory == "mapped";
  if (!options.algorithm.empty() && algorithms::find(what.call.collective, options.algorithm) == nullptr) {
    std::string known;
    for (const algorithms::Algorithm& one : algorithms::catalogue()) {
      if (one.collective == what.call.collective) known += (known.empty() ? "" : ", ") + std::string(one.name);
    }
    throw CLI::ValidationError("--algorithm", "takes one of " + known + ", not \"" + options.algorithm + "\"");
  }
  if (!options.json) print_heading(options);
  Progress bar("bench", "calls");
  bool all_equal = true;
  std::vector<Measured> ways;  // of one size
  const std::string problem = measure(
      what,
      [&](const Measured& measured) {
        bar.clear();
        if (what.overlap) {
          ways.push_back(measured);
          if (ways.size() == kWays) print_overlap(options, std::exchange(ways, {}));
          return;
        }
        all_equal = all_equal && measured.equal.value_or(true);
        if (options.json)
          print_as_json(options, measured);
        else
          print_line(options, measured);
        if (options.profile && !options.json && measured.contender == kUs) print_profile(measured);
      },
      [&](uint64_t done, uint64_t planned) { bar.update(done, planned); });
  bar.clear();
  if (!problem.empty()) {
    note("regroup bench: {}\n", problem);
    return kFailed;
  }
  if (!all_equal) note("regroup bench: outputs are wrong\n");
  return all_equal ? kWorked : kFailed;
}

int run_tune(const Options& options, bool one_collective, bool sizes_limited) {
  TuneOptions tuning;
  tuning.what = options.what;
  tuning.what.call.op = options.what.op.kind;
  tuning.what.call.mapped = options.memory == "mapped";
  if (one_collective) tuning.collectives = {options.what.call.collective};
  tuning.ranks = options.ranks;
  if (options.what.call.transport != "auto") tuning.transports = {options.what.call.transport};
  if (sizes_limited) tuning.most_bytes = options.bytes;
  tuning.memory = options.memory;
  tuning.output = options.output;
  tuning.json = options.json;
  return tune(tuning);
}

}  // namespace

void add_bench(CLI::App& app, int* status) {
  CLI::App* verb = app.add_subcommand("bench", "Measure a collective on this host");
  static Options options;
  Measurement& what = options.what;
  CLI::Option* collective = add_collective(*verb, &what.call.collective)->required(false);
  add_ranges(*verb, "-n,--ranks", &options.ranks, 1, contest::kMostRanks,
             "how many ranks (4; with --tune several: 2, 4 and the number of cores)");
  CLI::Option* bytes = add_size(*verb, "--bytes", &options.bytes, "of a rank's larger side (1M)");
  verb->add_flag("--sweep", options.sweep, "sizes from 8 B to 64 MB")->excludes(bytes);
  add_type(*verb, &what.call.type);
  add_op(*verb, &what.op);
  add_count(*verb, "--root", &what.call.root, 0, contest::kMostRanks - 1, "the root, where there is one (0)");
  CLI::Option* threads =
      add_count(*verb, "--threads", &what.call.threads, 1, executor::kMostThreads,
                "of each of regroup's ranks, which then has a core for each (REGROUP_THREADS, or 1)");
  verb->add_option("--backend", what.backend, "which backend (native)")->type_name("NAME");
  add_choice(*verb, "--transport", &what.call.transport, {"auto", "shm", "tcp"}, "auto, shm or tcp (auto)");
  add_choice(*verb, "--memory", &options.memory, {"ordinary", "mapped"},
             "ordinary, or mapped by regroup::allocate (ordinary)");
  verb->add_option("--algorithm", options.algorithm, "by name (the library's choice)");
  verb->add_flag("--reproducible", what.call.reproducible, "fold in rank order");
  verb->add_flag("--in-place", what.in_place, "the in-place form");
  add_list(*verb, "--against", &what.against, {"openmpi", "mpich", "gloo", "torch", "bare"},
           "peers that take turns with regroup; bare: written by hand, without checks, to see what the machine allows");
  add_count(*verb, "--iterations", &what.iterations, 1, contest::kMostIterations,
            "calls (as many as fit a second, at least 5)");
  add_count(*verb, "--warmup", &what.warmup, 1, contest::kMostIterations, "calls before them");
  verb->add_flag("--check", what.check, "compare every output element after every call");
  verb->add_flag("--profile", options.profile, "show where rank 0's time went");
  CLI::Option* overlap =
      verb->add_flag("--overlap", what.overlap,
                     "how much of the communication is hidden behind a computation of the caller's that lasts as long");
  for (const char* name : {"--against", "--check", "--profile"}) overlap->excludes(verb->get_option(name));
  verb->add_flag("--json", options.json, "one JSON object for each contender and size");
  CLI::Option* tune = verb->add_flag("--tune", options.tune,
                                     "measure all algorithms, of COLLECTIVE or of all, up to --bytes (64M), and write "
                                     "the table of the best, which REGROUP_TUNING makes the library use");
  verb->add_option("--output", options.output, "where to (regroup-tuning.txt)")->type_name("FILE")->needs(tune);
  for (const char* name :
       {"--sweep", "--algorithm", "--reproducible", "--in-place", "--against", "--profile", "--check", "--overlap"}) {
    tune->excludes(verb->get_option(name));
  }
  verb->callback([=] {
    if (threads->count() == 0) options.what.call.threads = threads_of_environment();
    if (options.tune) {
      *status = run_tune(options, collective->count() > 0, bytes->count() > 0);
      return;
    }
    if (collective->count() == 0) throw CLI::RequiredError("COLLECTIVE");
    if (options.ranks.empty()) options.ranks = {4};
    if (options.ranks.size() > 1) throw CLI::ValidationError("--ranks", "takes one number, unless with --tune");
    *status = run_bench(options);
  });
}

}  // namespace regroup::tool
