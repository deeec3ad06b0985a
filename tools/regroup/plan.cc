// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "accuracy.h"
#include "arguments.h"
#include "choice.h"
#include "executor/team.h"
#include "measurement.h"
#include "output.h"
#include "profile.h"
#include "transport/shm/layout.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

struct Options {
  Call call;
  std::string algorithm;
  int64_t rank = -1;
  bool measure = false;
  ReduceOp op;
  bool dot = false;
  bool json = false;
};

struct Candidate {
  const algorithms::Algorithm* algorithm;
  plan::Cost cost;
  double measured_us = 0;  // 0: was not measured
};

// What was decided, and why.
struct Choice {
  Candidate chosen;
  std::string_view reason;
  std::string_view row;  // of which table; empty: of none
  bool eager = false;    // the eager path comes before all this
  std::vector<Candidate> candidates;
  Accuracy accuracy;
};

std::vector<Candidate> candidates_of(const Call& call) {
  std::vector<Candidate> candidates;
  const plan::Problem problem = problem_of(call, 0);
  const algorithms::Facts facts = facts_of(call);
  for (const algorithms::Algorithm& algorithm : algorithms::catalogue()) {
    if (algorithms::usable(algorithm, problem, facts)) candidates.push_back({&algorithm, cost_of(algorithm, call)});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.us < b.cost.us; });
  return candidates;
}

void print_dot_rank(const plan::Schedule& schedule) {
  const Rank rank = schedule.rank();
  print("  subgraph cluster_{} {{\n    label=\"rank {}\";\n", rank, rank);
  plan::StepIndex index = 0;
  for (const plan::Step& step : schedule.steps()) {
    std::string label(name(step.kind));
    if (step.peer != plan::kNoRank) label += fmt::format(" rank {}", step.peer);
    if (step.kind == plan::StepKind::notify || step.kind == plan::StepKind::await)
      label += fmt::format("\\nmark {}", step.mark);
    else
      label += fmt::format("\\n{} elements",
                           step.kind == plan::StepKind::send ? schedule.sources(step)[0].slice.count : step.to.count);
    print("    r{}s{} [label=\"{}\"];\n", rank, index, label);
    for (const plan::StepIndex earlier : schedule.after(step))
      print("    r{}s{} -> r{}s{};\n", rank, earlier, rank, index);
    ++index;
  }
  print("  }}\n");
}

// A message or a mark is an edge between ranks.
void print_dot_links(const std::vector<plan::Schedule>& schedules) {
  for (const plan::Schedule& from : schedules) {
    for (plan::StepIndex sent = 0; sent < from.steps().size(); ++sent) {
      const plan::Step& step = from.steps()[sent];
      for (const plan::Schedule& to : schedules) {
        for (plan::StepIndex got = 0; got < to.steps().size(); ++got) {
          const plan::Step& other = to.steps()[got];
          const bool receives = other.kind == plan::StepKind::receive || other.kind == plan::StepKind::receive_reduce;
          const bool message = step.kind == plan::StepKind::send && step.peer == to.rank() && receives &&
                               other.peer == from.rank() && other.message == step.message;
          const bool mark = step.kind == plan::StepKind::notify && other.kind == plan::StepKind::await &&
                            other.peer == from.rank() && other.mark == step.mark;
          if (!message && !mark) continue;
          print("  r{}s{} -> r{}s{} [color={}];\n", from.rank(), sent, to.rank(), got, message ? "blue" : "gray");
        }
      }
    }
  }
}

void print_dot(const Options& options, const std::vector<plan::Schedule>& schedules) {
  print("digraph schedule {{\n  rankdir=TB;\n  node [shape=box, fontsize=10];\n");
  if (options.rank >= 0) {
    print_dot_rank(schedules[static_cast<size_t>(options.rank)]);
  } else {
    for (const plan::Schedule& schedule : schedules) print_dot_rank(schedule);
    print_dot_links(schedules);
  }
  print("}}\n");
}

Json cost_json(const Candidate& candidate) {
  Json object;
  object["algorithm"] = candidate.algorithm->name;
  object["predicted_us"] = candidate.cost.us;
  object["steps"] = candidate.cost.steps;
  object["sent_bytes"] = candidate.cost.sent_bytes;
  object["read_bytes"] = candidate.cost.read_bytes;
  if (candidate.measured_us > 0) {
    object["measured_us"] = candidate.measured_us;
    object["error"] = Accuracy::error(candidate.cost.us, candidate.measured_us);
  }
  return object;
}

void print_as_json(const Options& options, const Choice& choice, const std::vector<plan::Schedule>& schedules) {
  const Candidate& chosen = choice.chosen;
  Json object;
  object["collective"] = name(options.call.collective);
  object["ranks"] = options.call.ranks;
  object["hosts"] = options.call.hosts;
  object["bytes"] = bytes_of(options.call);
  object["dtype"] = name(options.call.type);
  object["threads"] = options.call.threads;
  object.update(cost_json(chosen));
  object["reason"] = choice.reason;
  object["eager"] = choice.eager;
  object["decided_by"] = choice.row.empty() ? Json() : Json(choice.row);
  object["source"] = chosen.algorithm->source;
  Json alternatives = Json::array();
  for (const Candidate& other : choice.candidates) {
    if (other.algorithm != chosen.algorithm) alternatives.push_back(cost_json(other));
  }
  object["alternatives"] = std::move(alternatives);
  if (choice.accuracy.count() > 0) object["median_error"] = choice.accuracy.median_error();
  const Rank rank = options.rank < 0 ? 0 : static_cast<Rank>(options.rank);
  object["rank"] = rank;
  object["schedule"] = plan::to_string(schedules[rank]);
  print_json(object);
}

void print_for_people(const Options& options, const Choice& choice, const std::vector<plan::Schedule>& schedules) {
  const Call& call = options.call;
  const Candidate& chosen = choice.chosen;
  print("{} of {} among {} ranks{}{}: {}, because: {}\n", name(call.collective), human_bytes(bytes_of(call)),
        call.ranks, call.threads > 1 ? fmt::format(" of {} threads", call.threads) : "",
        call.hosts > 1 ? fmt::format(" on {} hosts", call.hosts) : "", chosen.algorithm->name, choice.reason);
  if (!choice.row.empty())
    print("decided by: {}\n", choice.row == algorithms::kBuiltIn ? "the built-in table" : choice.row);
  print("source: {}\n", chosen.algorithm->source);
  if (choice.eager) {
    print(
        "but a call that does not name it takes the eager path, without a schedule (up to {} of a rank on one host)\n",
        human_bytes(transport::shm::kEagerPayload));
  }
  print("\n");
  print("{:<22} {:>12}{} {:>8} {:>14} {:>14}\n", "algorithm", "predicted",
        options.measure ? fmt::format(" {:>12} {:>8}", "measured", "error") : "", "steps", "sent a rank",
        "read a rank");
  for (const Candidate& candidate : choice.candidates) {
    std::string measured;
    if (candidate.measured_us > 0) {
      measured = fmt::format(" {:>9.1f} us {:>6.0f} %", candidate.measured_us,
                             100 * Accuracy::error(candidate.cost.us, candidate.measured_us));
    } else if (options.measure) {
      measured = fmt::format(" {:>12} {:>8}", "-", "-");
    }
    print("{:<22} {:>9.1f} us{} {:>8} {:>14} {:>14}{}\n", candidate.algorithm->name, candidate.cost.us, measured,
          candidate.cost.steps, human_bytes(candidate.cost.sent_bytes), human_bytes(candidate.cost.read_bytes),
          candidate.algorithm == chosen.algorithm ? "  ← this one" : "");
  }
  print("(most of any rank; predicted by a model of latency and bandwidth)\n");
  if (options.measure) print("{}\n", choice.accuracy.to_string());
  const Rank rank = options.rank < 0 ? 0 : static_cast<Rank>(options.rank);
  print("\nsteps of rank {}, in elements of {}:\n{}", rank, name(call.type), plan::to_string(schedules[rank]));
}

// Measures all candidates, in turns. The problem; empty if there is none.
std::string measure_all(const Options& options, Choice* choice) {
  Measurement what;
  what.call = options.call;
  what.op = options.op;
  what.sizes = {options.call.collective == Collective::barrier ? 0 : options.call.bytes};
  what.floor = false;
  what.algorithms.clear();
  for (const Candidate& candidate : choice->candidates) what.algorithms.emplace_back(candidate.algorithm->name);
  const auto take = [&](const Measured& measured) {
    if (!measured.reason.empty()) {
      note("{}: {}\n", measured.algorithm, measured.reason);
      return;
    }
    for (Candidate& candidate : choice->candidates) {
      if (candidate.algorithm->name != measured.algorithm) continue;
      candidate.measured_us = measured.p50_us;
      choice->accuracy.add(candidate.cost.us, measured.p50_us);
      if (candidate.algorithm == choice->chosen.algorithm) choice->chosen = candidate;
    }
  };
  return measure(what, take, {});
}

int explain(Options& options) {
  const Call& call = options.call;
  if (call.hosts > call.ranks) throw CLI::ValidationError("--hosts", "takes at most as many hosts as ranks");
  if (call.root >= call.ranks) throw CLI::ValidationError("--root", "takes a rank below the number of ranks");
  if (options.rank >= static_cast<int64_t>(call.ranks)) {
    throw CLI::ValidationError("--rank", "takes a rank below the number of ranks");
  }
  if (options.measure && call.hosts > 1) throw CLI::ValidationError("--measure", "measures on this host only");
  if (options.measure && call.ranks > contest::kMostRanks) {
    throw CLI::ValidationError("--measure", fmt::format("takes at most {} ranks", contest::kMostRanks));
  }
  if (call.transport == "shm" && call.hosts > 1) throw CLI::ValidationError("--transport", "shm serves one host only");
  options.call.tuning = tuning_of_environment();
  options.call.size_agreed = true;
  const algorithms::Selection selection = selection_of(call);
  const algorithms::Algorithm* algorithm = selection.algorithm;
  Choice choice;
  choice.reason = selection.reason;
  choice.row = selection.row;
  choice.eager = options.algorithm.empty() && takes_eager_path(call);
  choice.candidates = candidates_of(call);
  const std::vector<Candidate>& candidates = choice.candidates;
  if (!options.algorithm.empty()) {
    algorithm = algorithms::find(call.collective, options.algorithm);
    choice.reason = "asked for";
    choice.row = {};
    const bool usable = std::any_of(candidates.begin(), candidates.end(),
                                    [&](const Candidate& one) { return one.algorithm == algorithm; });
    if (!usable) {
      std::string known;
      for (const Candidate& one : candidates) known += (known.empty() ? "" : ", ") + std::string(one.algorithm->name);
      throw CLI::ValidationError("--algorithm", "takes one of " + known + " here, not \"" + options.algorithm + "\"");
    }
  }
  const std::vector<plan::Schedule> schedules = schedules_of(*algorithm, call);
  choice.chosen = {algorithm, cost_of(*algorithm, call)};
  if (options.measure) {
    if (std::string problem = measure_all(options, &choice); !problem.empty()) {
      note("regroup plan: {}\n", problem);
      return kFailed;
    }
  }
  if (options.dot)
    print_dot(options, schedules);
  else if (options.json)
    print_as_json(options, choice, schedules);
  else
    print_for_people(options, choice, schedules);
  return kWorked;
}

}  // namespace

void add_plan(CLI::App& app, int* status) {
  CLI::App* verb = app.add_subcommand("plan", "Show what will be done for a call, why, and its predicted cost");
  static Options options;
  Call& call = options.call;
  add_collective(*verb, &call.collective);
  static uint32_t rank = 0;
  CLI::Option* one = add_count(*verb, "--rank", &rank, 0, 1023, "whose steps (0; with --dot all ranks)");
  add_count(*verb, "-n,--ranks", &call.ranks, 1, 1024, "how many ranks")->required();
  call.bytes = 1 << 20;
  add_size(*verb, "--bytes", &call.bytes, "of a rank's larger side (1M)");
  add_count(*verb, "--hosts", &call.hosts, 1, 1024, "on how many hosts (1)");
  add_count(*verb, "--cores", &call.cores, 1, 1024,
            "of each host, which the prediction goes by (this machine's; with several hosts one for each rank)");
  add_count(*verb, "--threads", &call.threads, 1, executor::kMostThreads,
            "of each rank, as far as the host has cores for them (1)");
  add_count(*verb, "--root", &call.root, 0, 1023, "the root, where there is one (0)");
  add_type(*verb, &call.type);
  add_op(*verb, &options.op);
  add_choice(*verb, "--transport", &call.transport, {"auto", "shm", "tcp"}, "auto, shm or tcp (auto)");
  static std::string memory = "ordinary";
  add_choice(*verb, "--memory", &memory, {"ordinary", "mapped"}, "ordinary, or mapped by regroup::allocate (ordinary)");
  verb->add_option("--algorithm", options.algorithm, "as if it were asked for by name");
  verb->add_flag("--reproducible", call.reproducible, "fold in rank order");
  CLI::Option* measured = verb->add_flag("--measure", options.measure,
                                         "also measure all candidates here, and show how far the model is off");
  verb->add_flag("--dot", options.dot, "a graph for Graphviz")->excludes(measured);
  verb->add_flag("--json", options.json, "one JSON object");
  verb->callback([status, one] {
    options.call.op = options.op.kind;
    options.call.mapped = memory == "mapped";
    if (one->count() > 0) options.rank = rank;
    *status = explain(options);
  });
}

}  // namespace regroup::tool
