// SPDX-License-Identifier: Apache-2.0
// Many runs, each with a fault: what came of them.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "arguments.h"
#include "chaos/cut.h"
#include "chaos/run.h"
#include "chaos/scenario.h"
#include "output.h"
#include "process_tree.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

using chaos::Fault;
using chaos::Report;
using chaos::Scenario;
using chaos::Verdict;

constexpr uint64_t kMostShown = 20;  // failed runs

struct Options {
  chaos::Wishes wishes;
  std::vector<std::string> faults;
  std::string transport = "auto";
  uint64_t resident = 0;
  uint32_t runs = 200;
  uint32_t seed = 1;
  std::string again;
  bool dry_run = false;
  bool json = false;
};

// Of milliseconds. Where nothing was measured there is no figure.
struct Times {
  std::vector<double> ms;

  void add(const std::optional<double>& one) {
    if (one) ms.push_back(*one);
  }
  double at(double part) const {
    std::vector<double> sorted = ms;
    std::sort(sorted.begin(), sorted.end());
    const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
    return sorted[std::max<size_t>(rank, 1) - 1];
  }
  Json json() const {
    if (ms.empty()) return {{"p50", nullptr}, {"p99", nullptr}, {"max", nullptr}};
    return {{"p50", at(0.5)}, {"p99", at(0.99)}, {"max", at(1)}};
  }
  std::string text() const {
    if (ms.empty()) return fmt::format("{:>8} {:>8} {:>8}", "-", "-", "-");
    return fmt::format("{:>8.1f} {:>8.1f} {:>8.1f}", at(0.5), at(0.99), at(1));
  }
};

struct Tally {
  uint64_t runs = 0, verdicts[4] = {}, operations = 0;
  Times detect, recover, abort;

  void add(const Report& report) {
    ++runs;
    ++verdicts[static_cast<size_t>(report.verdict)];
    operations += report.operations;
    detect.add(report.detect_ms);
    recover.add(report.recover_ms);
    abort.add(report.abort_ms);
  }
  Json json() const {
    return {
        {"runs", runs},           {"right", verdicts[0]},       {"wrong", verdicts[1]},        {"hung", verdicts[2]},
        {"crashed", verdicts[3]}, {"detect_ms", detect.json()}, {"recover_ms", recover.json()}};
  }
};

// The folder in which ranks meet; empty if there can be none.
class Folder {
 public:
  Folder() {
    const char* base = ::getenv("TMPDIR");
    std::string name = std::string(base != nullptr && *base != 0 ? base : "/tmp") + "/regroup-chaos-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() { ::rmdir(path_.c_str()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Json json_of(const Scenario& s) {
  return {{"run_seed", s.seed},   {"fault", name(s.fault)},    {"transport", name(s.wire)},
          {"victim", s.victim},   {"operation", s.operation},  {"resident", s.resident},
          {"child", s.has_child}, {"most_bytes", s.most_bytes}};
}

// What repeats this run alone.
std::string command_of(const Options& options, const Scenario& s) {
  std::string command = fmt::format("regroup chaos -n {} --again {} --fault {} --transport {} --timeout {}ms", s.ranks,
                                    s.seed, name(s.fault), name(s.wire), options.wishes.timeout.count() / 1'000'000);
  if (options.wishes.resident) command += fmt::format(" --resident {}", *options.wishes.resident);
  return command;
}

std::vector<Scenario> scenarios_of(const Options& options) {
  std::vector<Scenario> all;
  if (!options.again.empty()) {
    all.push_back(make_scenario(options.wishes, std::stoull(options.again)));
    return all;
  }
  for (uint32_t index = 0; index < options.runs; ++index)
    all.push_back(make_scenario(options.wishes, chaos::seed_of_run(options.seed, index)));
  return all;
}

void print_table(const Options& options, const Tally& all, const std::map<Fault, Tally>& by_fault) {
  if (options.json) {
    Json object = all.json();
    // What is promised is the time from a death on; where nobody was killed there is none.
    const auto kills = by_fault.find(Fault::kill);
    const Tally none;
    const Tally& killed = kills == by_fault.end() ? none : kills->second;
    object["detect_ms"] = killed.detect.json();
    object["recover_ms"] = killed.recover.json();
    object["abort_ms"] = all.abort.json();
    object["operations"] = all.operations;
    object["seed"] = options.seed;
    object["ranks"] = options.wishes.ranks;
    for (const auto& [fault, tally] : by_fault) object["faults"][name(fault)] = tally.json();
    return print_json(object);
  }
  print("{:<10} {:>5} {:>6} {:>6} {:>5} {:>8}   {:^26}   {:^26}\n", "fault", "runs", "right", "wrong", "hung",
        "crashed", "told, ms: p50   p99    max", "going on, ms: p50  p99  max");
  for (const auto& [fault, tally] : by_fault) {
    print("{:<10} {:>5} {:>6} {:>6} {:>5} {:>8}   {}   {}\n", name(fault), tally.runs, tally.verdicts[0],
          tally.verdicts[1], tally.verdicts[2], tally.verdicts[3], tally.detect.text(), tally.recover.text());
  }
  if (!all.abort.ms.empty()) print("abort() returned after, ms:{:>38}{}\n", "", all.abort.text());
  print("\n{} runs of {} ranks with seed {}: {} right, {} wrong, {} hung, {} crashed; {} results checked\n", all.runs,
        options.wishes.ranks, options.seed, all.verdicts[0], all.verdicts[1], all.verdicts[2], all.verdicts[3],
        all.operations);
}

void tell_of(const Options& options, const Scenario& scenario, const Report& report) {
  constexpr const char* kWords[] = {"RIGHT", "WRONG", "HUNG", "CRASHED"};
  note("{} seed {}: {}\n", kWords[static_cast<size_t>(report.verdict)], scenario.seed, describe(scenario));
  for (const std::string& text : report.complaints) note("  {}\n", text);
  note("  again: {}\n", command_of(options, scenario));
}

int run_all(const Options& options) {
  const std::vector<Scenario> scenarios = scenarios_of(options);
  if (options.dry_run) {
    for (const Scenario& scenario : scenarios) {
      if (options.json)
        print_json(json_of(scenario));
      else
        print("{}: {}\n", scenario.seed, describe(scenario));
    }
    return kWorked;
  }
  const Folder folder;
  if (folder.path().empty()) {
    note("regroup chaos: no folder can be made for the ranks to meet in\n");
    return kFailed;
  }
  adopt_orphans();  // of victims
  Tally all;
  std::map<Fault, Tally> by_fault;
  uint64_t shown = 0;
  Progress bar("chaos", "runs");
  for (const Scenario& scenario : scenarios) {
    const Report report = chaos::run(scenario, folder.path());
    all.add(report);
    by_fault[scenario.fault].add(report);
    bar.update(all.runs, scenarios.size());
    if (report.verdict == Verdict::right || ++shown > kMostShown) continue;
    bar.clear();
    tell_of(options, scenario, report);
  }
  bar.clear();
  if (shown > kMostShown) note("… and {} more runs that failed\n", shown - kMostShown);
  print_table(options, all, by_fault);
  return all.verdicts[0] == all.runs ? kWorked : kFailed;
}

// Turns what was asked for into wishes, and leaves out what cannot be had here. False if nothing is left.
bool settle_wishes(Options* options) {
  chaos::Wishes& wishes = options->wishes;
  wishes.wire = chaos::parse_wire(options->transport);  // none: auto
  const bool asked = !options->faults.empty();
  if (asked) wishes.faults.clear();
  for (const std::string& fault : options->faults) wishes.faults.push_back(*chaos::parse_fault(fault));
  const auto partition = std::find(wishes.faults.begin(), wishes.faults.end(), Fault::partition);
  if (partition == wishes.faults.end()) return true;
  if (wishes.wire == chaos::Wire::shm) {
    if (asked) throw CLI::ValidationError("--fault", "partition needs a network: --transport tcp, mixed or auto");
    wishes.faults.erase(partition);
  } else if (const std::string why = options->dry_run ? "" : chaos::why_no_cuts(); !why.empty()) {
    note("regroup chaos: partition is left out: {}\n", why);
    wishes.faults.erase(partition);
  }
  return !wishes.faults.empty();
}

}  // namespace

void add_chaos(CLI::App& app, int* status) {
  CLI::App* verb =
      app.add_subcommand("chaos", "Faults at seeded moments during real collectives; checks every survivor");
  static Options options;
  add_count(*verb, "-n,--ranks", &options.wishes.ranks, 2, 64, "how many ranks (4)");
  add_count(*verb, "--runs", &options.runs, 1, 10'000'000, "how many runs, each with one fault (200)");
  add_count(*verb, "--seed", &options.seed, 0, 4'000'000'000, "other choices (1)");
  std::vector<std::string> known;
  for (int fault = 0; fault < chaos::kFaults; ++fault) known.emplace_back(name(static_cast<Fault>(fault)));
  add_list(*verb, "--fault", &options.faults, known, "which faults (all)");
  add_choice(*verb, "--transport", &options.transport, {"auto", "shm", "tcp", "mixed"},
             "over which wire; auto: each in turn");
  CLI::Option* resident =
      add_size(*verb, "--resident", &options.resident, "memory that a killed rank has touched (a small seeded size)");
  add_duration(*verb, "--timeout", &options.wishes.timeout,
               "the group's time-out, where nothing else tells of a fault (300ms)");
  verb->add_option("--again", options.again, "one run alone, by the seed that a failure prints")
      ->check([](const std::string& text) {
        const bool number =
            !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
        return number ? std::string() : "takes a run's seed as a failure prints it, not \"" + text + "\"";
      })
      ->type_name("SEED");
  verb->add_flag("--dry-run", options.dry_run, "say what would happen in each run, and do nothing");
  verb->add_flag("--json", options.json, "one JSON object");
  verb->footer(
      "kill: SIGKILL, sometimes of a rank with much memory or with a child that lives on. stop: SIGSTOP for good.\n"
      "continue: SIGSTOP, and SIGCONT when the others have gone on. partition: the network between two sets of ranks\n"
      "is cut. abort: a rank calls abort(). slow: a rank is late, and must not be taken for dead.\n"
      "Every survivor must be told of the culprit and only of it, shrink, go on with right results, and leave nothing\n"
      "behind. Times are from the fault (or from a survivor's call, where that came later) to the last survivor's\n"
      "error (told), and from the fault to the end of the last survivor's first operation in the group's next life\n"
      "(going on).");
  verb->callback([status, resident] {
    if (resident->count() > 0) options.wishes.resident = options.resident;
    *status = settle_wishes(&options) ? run_all(options) : kFailed;
  });
}

}  // namespace regroup::tool
