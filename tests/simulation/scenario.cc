// SPDX-License-Identifier: Apache-2.0
#include "simulation/scenario.h"

#include <algorithm>

#include "base/hash.h"

namespace regroup::simulation {

using algorithms::Algorithm;
using verify::BatchMember;

namespace {

constexpr uint64_t kEagerLimit = 2048;
constexpr Rank kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17};

// Ranks that read each other's memory: at least those that the algorithms need.
std::vector<uint32_t> draw_domains(const plan::Topology& hosts, Algorithm::Reads needed, std::mt19937_64& random) {
  const int least = static_cast<int>(needed);
  const int chosen = least + static_cast<int>(random() % static_cast<uint64_t>(3 - least));
  if (chosen == static_cast<int>(Algorithm::Reads::none)) return {};
  std::vector<uint32_t> domains(hosts.size(), 0);
  for (Rank rank = 0; rank < hosts.size() && chosen == static_cast<int>(Algorithm::Reads::inside_hosts); ++rank) {
    domains[rank] = hosts.host_of(rank);
  }
  return domains;
}

bool all_alike(const std::vector<uint32_t>& domains) {
  return !domains.empty() && std::all_of(domains.begin(), domains.end(), [&](uint32_t d) { return d == domains[0]; });
}

std::vector<BatchMember> draw_calls(Rank size, std::mt19937_64& random) {
  while (true) {
    std::vector<BatchMember> calls = verify::random_batch(algorithms::catalogue(), size, random);
    std::erase_if(calls, [](const BatchMember& call) { return !runnable(call); });
    if (!calls.empty()) return calls;
  }
}

std::string describe_all(const Scenario& scenario) {
  std::string text;
  for (const Operation& operation : scenario.operations) text += describe(operation) + "\n";
  return text;
}

}  // namespace

Scenario make_scenario(uint64_t seed) {
  std::mt19937_64 random(base::mix(seed, 1));
  const Rank size = kSizes[random() % std::size(kSizes)];
  const std::vector<BatchMember> calls = draw_calls(size, random);
  Algorithm::Reads needed = Algorithm::Reads::none;
  for (const BatchMember& call : calls) needed = std::max(needed, call.algorithm->reads);

  Scenario scenario;
  scenario.options.size = size;
  scenario.options.seed = seed;
  scenario.options.memory_domain = draw_domains(calls[0].test_case.problems[0].topology, needed, random);
  const bool eager = all_alike(scenario.options.memory_domain);
  scenario.options.eager_limit = eager ? kEagerLimit : 0;
  scenario.options.lends = random() % 2 == 0;
  for (size_t i = 0; i < calls.size();) {
    if (eager && random() % 4 == 0 && eager_possible(calls[i], kEagerLimit)) {
      scenario.operations.push_back(make_operation({&calls[i], 1}, {}, random));
      if (random() % 2 == 0) ++i;  // or the same again by its algorithm
      continue;
    }
    const size_t fused = random() % 3 == 0 ? 1 + random() % (calls.size() - i) : 1;
    const std::span<const BatchMember> members(calls.data() + i, fused);
    if (fused == 1) {
      scenario.operations.push_back(make_operation(members[0], random));
      if (eager && eager_by_pair(members[0]) && random() % 2 == 0) show_pairs(scenario.operations.back(), random);
    } else {
      scenario.operations.push_back(make_operation(members, verify::plan_all(members), random));
    }
    i += fused;
  }
  scenario.text = describe_all(scenario);
  return scenario;
}

Scenario make_scenario(const BatchMember& call, uint64_t seed) {
  std::mt19937_64 random(base::mix(seed, 2));
  Scenario scenario;
  scenario.options.size = static_cast<Rank>(call.test_case.problems.size());
  scenario.options.seed = seed;
  scenario.options.memory_domain = draw_domains(call.test_case.problems[0].topology, call.algorithm->reads, random);
  scenario.operations.push_back(make_operation(call, random));
  if (all_alike(scenario.options.memory_domain) && eager_by_pair(call) && random() % 2 == 0) {
    scenario.options.eager_limit = kEagerLimit;
    show_pairs(scenario.operations[0], random);
  }
  scenario.text = describe_all(scenario);
  return scenario;
}

}  // namespace regroup::simulation
