// SPDX-License-Identifier: Apache-2.0
#include "choice.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <thread>

#include "arguments.h"
#include "backend/native/plans.h"
#include "backend/native/tuning_file.h"
#include "plan/partition.h"
#include "reduce/reduce.h"
#include "transport/shm/layout.h"

namespace regroup::tool {

std::shared_ptr<const algorithms::Tuning> tuning_of_environment() {
  const char* path = std::getenv("REGROUP_TUNING");
  if (path == nullptr || *path == '\0') return nullptr;
  auto table = backend::native::read_tuning(path);
  if (!table.ok()) throw CLI::ValidationError("REGROUP_TUNING", table.status().message());
  return std::move(table).value();
}

uint32_t threads_of_environment() {
  const char* value = std::getenv("REGROUP_THREADS");
  if (value == nullptr || *value == '\0') return 1;
  const auto numbers = parse_ranges(value, 1, executor::kMostThreads);
  if (!numbers || numbers->size() != 1)
    throw CLI::ValidationError("REGROUP_THREADS", fmt::format("takes a number from 1 to {}", executor::kMostThreads));
  return numbers->front();
}

uint64_t elements_of(const Call& call) {
  if (call.collective == Collective::barrier || call.bytes == 0) return 0;
  const uint64_t whole = call.bytes / size_of(call.type);
  return std::max<uint64_t>(1, has_parts(call.collective) ? whole / call.ranks : whole);
}

uint64_t bytes_of(const Call& call) {
  return elements_of(call) * size_of(call.type) * (has_parts(call.collective) ? call.ranks : 1);
}

plan::Problem problem_of(const Call& call, Rank rank) {
  plan::Problem problem;
  problem.collective = call.collective;
  problem.rank = rank;
  problem.size = call.ranks;
  problem.root = has_root(call.collective) ? call.root : 0;
  problem.count = elements_of(call);
  if (has_parts(call.collective)) problem.counts.assign(call.ranks, problem.count);
  if (call.collective == Collective::all_to_all) problem.receive_counts = problem.counts;
  problem.equal_counts = call.size_agreed && call.collective == Collective::all_to_all;
  problem.counts_known =
      call.size_agreed && (call.collective == Collective::gather || call.collective == Collective::scatter);
  // Neighbouring ranks share a host.
  std::vector<uint32_t> hosts(call.ranks);
  for (uint32_t host = 0; host < call.hosts; ++host) {
    const plan::Share share = plan::share_of(call.ranks, call.hosts, host);
    std::fill_n(hosts.begin() + static_cast<std::ptrdiff_t>(share.offset), share.count, host);
  }
  problem.topology = plan::Topology(hosts);
  // As the library cuts them: a share of a block for each thread.
  if (call.transport != "tcp" && bytes_of(call) >= executor::kTeamOperation) problem.block *= call.threads;
  return problem;
}

algorithms::Facts facts_of(const Call& call) {
  algorithms::Facts facts;
  facts.one_sided_inside_hosts = call.transport != "tcp";
  facts.one_sided_everywhere = facts.one_sided_inside_hosts && call.hosts == 1;
  facts.staging = facts.one_sided_everywhere && !call.mapped;
  facts.single_fold_needed =
      reduces(call.collective) && (call.reproducible || !reduction::partial_results_allowed(call.type, call.op));
  facts.bytes = bytes_of(call);
  return facts;
}

algorithms::Selection selection_of(const Call& call) {
  return algorithms::select(problem_of(call, 0), facts_of(call), call.tuning.get());
}

bool takes_eager_path(const Call& call) {
  if (call.transport == "tcp" || call.hosts > 1) return false;
  backend::Request request;
  request.collective = call.collective;
  request.type = call.type;
  request.count = elements_of(call);
  request.equal = call.collective != Collective::all_to_all || call.size_agreed;
  request.counts_known = call.size_agreed;
  request.counts.assign(call.ranks, request.count);
  const unsigned cores = call.cores != 0 ? call.cores : std::max(1u, std::thread::hardware_concurrency());
  const bool by_pair = backend::native::differs_by_pair(request) && call.ranks <= cores;
  return backend::native::takes_eager_path(request, 0, call.ranks,
                                           by_pair ? transport::shm::kPairsShown : transport::shm::kEagerPayload);
}

std::vector<plan::Schedule> schedules_of(const algorithms::Algorithm& algorithm, const Call& call) {
  std::vector<plan::Schedule> schedules;
  for (Rank rank = 0; rank < call.ranks; ++rank) schedules.push_back(algorithm.plan(problem_of(call, rank)));
  return schedules;
}

plan::Cost cost_of(const algorithms::Algorithm& algorithm, const Call& call) {
  const std::vector<plan::Schedule> schedules = schedules_of(algorithm, call);
  plan::CostModel model;
  model.mapped = call.mapped;
  model.cores = call.cores;
  model.threads = call.threads;
  if (call.cores == 0 && call.hosts == 1) model.cores = std::max(1u, std::thread::hardware_concurrency());
  return plan::predict(schedules, problem_of(call, 0).topology, size_of(call.type), call.transport == "tcp", model);
}

}  // namespace regroup::tool
