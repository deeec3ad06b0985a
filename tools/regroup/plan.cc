// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "arguments.h"
#include "choice.h"
#include "output.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

struct Options {
  Call call;
  std::string algorithm;
  int64_t rank = -1;
  bool dot = false;
  bool json = false;
};

struct Candidate {
  const algorithms::Algorithm* algorithm;
  plan::Cost cost;
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
  return object;
}

void print_as_json(const Options& options, const Candidate& chosen, std::string_view reason,
                   const std::vector<Candidate>& candidates, const std::vector<plan::Schedule>& schedules) {
  Json object;
  object["collective"] = name(options.call.collective);
  object["ranks"] = options.call.ranks;
  object["hosts"] = options.call.hosts;
  object["bytes"] = bytes_of(options.call);
  object["dtype"] = name(options.call.type);
  object.update(cost_json(chosen));
  object["reason"] = reason;
  object["source"] = chosen.algorithm->source;
  Json alternatives = Json::array();
  for (const Candidate& other : candidates) {
    if (other.algorithm != chosen.algorithm) alternatives.push_back(cost_json(other));
  }
  object["alternatives"] = std::move(alternatives);
  const Rank rank = options.rank < 0 ? 0 : static_cast<Rank>(options.rank);
  object["rank"] = rank;
  object["schedule"] = plan::to_string(schedules[rank]);
  print_json(object);
}

void print_for_people(const Options& options, const Candidate& chosen, std::string_view reason,
                      const std::vector<Candidate>& candidates, const std::vector<plan::Schedule>& schedules) {
  const Call& call = options.call;
  print("{} of {} among {} ranks{}: {}, because: {}\n", name(call.collective), human_bytes(bytes_of(call)), call.ranks,
        call.hosts > 1 ? fmt::format(" on {} hosts", call.hosts) : "", chosen.algorithm->name, reason);
  print("source: {}\n\n", chosen.algorithm->source);
  print("{:<22} {:>12} {:>8} {:>14} {:>14}\n", "algorithm", "predicted", "steps", "sent a rank", "read a rank");
  for (const Candidate& candidate : candidates) {
    print("{:<22} {:>9.1f} us {:>8} {:>14} {:>14}{}\n", candidate.algorithm->name, candidate.cost.us,
          candidate.cost.steps, human_bytes(candidate.cost.sent_bytes), human_bytes(candidate.cost.read_bytes),
          candidate.algorithm == chosen.algorithm ? "  ← this one" : "");
  }
  print("(most of any rank; by a model of latency and bandwidth, not by measurement)\n");
  const Rank rank = options.rank < 0 ? 0 : static_cast<Rank>(options.rank);
  print("\nsteps of rank {}, in elements of {}:\n{}", rank, name(call.type), plan::to_string(schedules[rank]));
}

int explain(Options& options) {
  const Call& call = options.call;
  if (call.hosts > call.ranks) throw CLI::ValidationError("--hosts", "takes at most as many hosts as ranks");
  if (call.root >= call.ranks) throw CLI::ValidationError("--root", "takes a rank below the number of ranks");
  if (options.rank >= static_cast<int64_t>(call.ranks)) {
    throw CLI::ValidationError("--rank", "takes a rank below the number of ranks");
  }
  if (call.transport == "shm" && call.hosts > 1) throw CLI::ValidationError("--transport", "shm serves one host only");
  const algorithms::Selection selection = algorithms::select(problem_of(call, 0), facts_of(call));
  const algorithms::Algorithm* algorithm = selection.algorithm;
  std::string_view reason = selection.reason;
  const std::vector<Candidate> candidates = candidates_of(call);
  if (!options.algorithm.empty()) {
    algorithm = algorithms::find(call.collective, options.algorithm);
    reason = "asked for";
    const bool usable = std::any_of(candidates.begin(), candidates.end(),
                                    [&](const Candidate& one) { return one.algorithm == algorithm; });
    if (!usable) {
      std::string known;
      for (const Candidate& one : candidates) known += (known.empty() ? "" : ", ") + std::string(one.algorithm->name);
      throw CLI::ValidationError("--algorithm", "takes one of " + known + " here, not \"" + options.algorithm + "\"");
    }
  }
  const std::vector<plan::Schedule> schedules = schedules_of(*algorithm, call);
  const Candidate chosen{algorithm, cost_of(*algorithm, call)};
  if (options.dot)
    print_dot(options, schedules);
  else if (options.json)
    print_as_json(options, chosen, reason, candidates, schedules);
  else
    print_for_people(options, chosen, reason, candidates, schedules);
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
  add_count(*verb, "--root", &call.root, 0, 1023, "the root, where there is one (0)");
  add_type(*verb, &call.type);
  static ReduceOp op;
  add_op(*verb, &op);
  add_choice(*verb, "--transport", &call.transport, {"auto", "shm", "tcp"}, "auto, shm or tcp (auto)");
  verb->add_option("--algorithm", options.algorithm, "as if it were asked for by name");
  verb->add_flag("--reproducible", call.reproducible, "fold in rank order");
  verb->add_flag("--dot", options.dot, "a graph for Graphviz");
  verb->add_flag("--json", options.json, "one JSON object");
  verb->callback([status, one] {
    options.call.op = op.kind;
    if (one->count() > 0) options.rank = rank;
    *status = explain(options);
  });
}

}  // namespace regroup::tool
