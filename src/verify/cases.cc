// SPDX-License-Identifier: Apache-2.0
#include "verify/cases.h"

#include <algorithm>
#include <set>

#include "algorithms/batch.h"
#include "base/assert.h"

namespace regroup::verify {

using algorithms::Algorithm;
using plan::Problem;
using plan::Schedule;
using plan::Topology;

namespace {

// All roots of small groups; of larger ones the ends, the second and the middle.
constexpr Rank kAllRoots = 8;
// So many elements that pipelines have several blocks, and a prime, so that nothing divides it.
constexpr uint64_t kMany = 4099;

struct Hosts {
  std::string_view name;
  Topology topology;
};

// What each rank has to give (all_to_all: rank `from` to rank `to`).
struct Sizes {
  std::string name;
  uint64_t block = 65536;
  std::function<uint64_t(Rank from, Rank to)> count;
  bool equal = false;      // the same for all
  bool symmetric = false;  // the same from `from` to `to` as back
};

std::vector<Rank> roots_of(Collective collective, Rank size) {
  if (!has_root(collective)) return {0};
  std::set<Rank> roots = {0, std::min<Rank>(1, size - 1), size / 2, size - 1};
  if (size <= kAllRoots) {
    for (Rank root = 0; root < size; ++root) roots.insert(root);
  }
  return {roots.begin(), roots.end()};
}

Topology by_host(Rank size, const std::function<uint32_t(Rank)>& host) {
  std::vector<uint32_t> host_of(size);
  for (Rank rank = 0; rank < size; ++rank) host_of[rank] = host(rank);
  return Topology(host_of);
}

std::vector<Hosts> hosts_of(Rank size, bool several) {
  std::vector<Hosts> all = {{"one host", Topology::one_host(size)}};
  if (!several || size < 3) return all;
  for (const Rank per_host : {2u, 4u, 8u}) {
    if (size % per_host == 0 && size > per_host)
      all.push_back({"even hosts", Topology::uniform(size / per_host, per_host)});
  }
  const auto root_of = [](Rank rank) {
    Rank root = 0;
    while ((root + 1) * (root + 2) / 2 <= rank) ++root;
    return root;
  };
  all.push_back({"uneven hosts", by_host(size, root_of)});  // 1, 2, 3, … ranks
  all.push_back({"one rank apart", by_host(size, [](Rank rank) { return rank == 0 ? 0u : 1u; })});
  const uint32_t hosts = size % 3 == 0 ? 3 : 2;
  all.push_back({"interleaved hosts", by_host(size, [hosts](Rank rank) { return rank % hosts; })});
  all.push_back({"mixed hosts", by_host(size, [](Rank rank) { return (rank * 5 + rank / 3) % 4; })});
  return all;
}

// One number of elements for all.
Sizes equal_sizes(uint64_t count, uint64_t block) {
  return {std::to_string(count), block, [count](Rank, Rank) { return count; }, true, true};
}

std::vector<Sizes> vector_sizes(Rank size) {
  std::vector<Sizes> all;
  for (const uint64_t count : std::set<uint64_t>{0, 1, size - 1, size, 2 * uint64_t{size} + 3}) {
    all.push_back(equal_sizes(count, count == size ? 1 : 65536));
  }
  all.push_back(equal_sizes(3 * uint64_t{size} + 5, 2));
  all.push_back(equal_sizes(kMany, 1024));
  all.push_back(equal_sizes(uint64_t{1} << 40, uint64_t{1} << 38));
  return all;
}

std::vector<Sizes> part_sizes(Rank size) {
  std::vector<Sizes> all;
  for (const uint64_t count : {0u, 1u, 5u}) all.push_back(equal_sizes(count, count == 5 ? 2 : 65536));
  all.push_back({"every other", 65536, [](Rank from, Rank) { return from % 2 == 0 ? 0 : 3; }});
  all.push_back({"one-heavy", 4, [size](Rank from, Rank) { return from == size / 2 ? 2 * uint64_t{size} + 3 : 0; }});
  all.push_back({"unequal", 1024, [size](Rank from, Rank) { return from + 1 == size ? kMany : (from * 7 + 3) % 11; }});
  return all;
}

std::vector<Sizes> pair_sizes(Rank size) {
  std::vector<Sizes> all;
  for (const uint64_t count : {0u, 1u, 5u}) all.push_back(equal_sizes(count, count == 5 ? 2 : 65536));
  all.push_back({"unequal", 2, [](Rank from, Rank to) { return (from * 7 + to * 3) % 5; }});
  all.push_back({"symmetric", 2, [](Rank from, Rank to) { return (from + to) % 3; }, false, true});
  all.push_back({"one-heavy", 1024, [size](Rank from, Rank to) {
                   return from == size / 2 && to == 0 ? kMany : to == size / 3 ? 1 : 0;
                 }});
  return all;
}

std::vector<Sizes> sizes_of(Collective collective, Rank size) {
  switch (collective) {
    case Collective::barrier:
      return {equal_sizes(0, 65536)};
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      return vector_sizes(size);
    case Collective::all_to_all:
      return pair_sizes(size);
    default:
      return part_sizes(size);
  }
}

// What a rank gives or takes is known to itself, and may be known to all.
bool rooted_parts(Collective collective) {
  return collective == Collective::gather || collective == Collective::scatter;
}

std::vector<Problem> problems_of(Collective collective, Rank size, Rank root, const Sizes& sizes, bool counts_known,
                                 const Topology& topology) {
  std::vector<Problem> problems(size);
  for (Rank rank = 0; rank < size; ++rank) {
    Problem& problem = problems[rank];
    problem.collective = collective;
    problem.rank = rank;
    problem.size = size;
    problem.root = root;
    problem.block = sizes.block;
    problem.topology = topology;
    problem.count = sizes.count(rank, 0);
    problem.equal_counts = collective == Collective::all_to_all && sizes.equal;
    problem.counts_known = rooted_parts(collective) && counts_known;
    if (collective == Collective::all_to_all) {
      problem.count = 0;
      for (Rank peer = 0; peer < size; ++peer) {
        problem.counts.push_back(sizes.count(rank, peer));
        problem.receive_counts.push_back(sizes.count(peer, rank));
      }
    } else if (collective == Collective::all_gather || collective == Collective::reduce_scatter ||
               (rooted_parts(collective) && (counts_known || rank == root))) {
      for (Rank peer = 0; peer < size; ++peer) problem.counts.push_back(sizes.count(peer, 0));
      if (!rooted_parts(collective)) problem.count = 0;
    }
  }
  return problems;
}

// Whether it fits has to look the same from every rank.
bool fits_all(const Algorithm& algorithm, const std::vector<Problem>& problems) {
  const bool fits = algorithm.fits(problems[0]);
  for (const Problem& problem : problems) REGROUP_ASSERT(algorithm.fits(problem) == fits);
  return fits;
}

Case make_case(Collective collective, Rank size, Rank root, const Sizes& sizes, bool counts_known, const Hosts& hosts) {
  Case made;
  made.problems = problems_of(collective, size, root, sizes, counts_known, hosts.topology);
  made.text = std::to_string(size) + " ranks" + (has_root(collective) ? ", root " + std::to_string(root) : "") +
              ", counts " + sizes.name + (counts_known ? "" : " (unknown)") + ", block " + std::to_string(sizes.block) +
              ", " + std::string(hosts.name);
  made.in_place_possible = collective != Collective::all_to_all || sizes.symmetric;
  return made;
}

}  // namespace

void for_each_case(const Algorithm& algorithm, Rank size, const std::function<void(const Case&)>& visit) {
  const Collective collective = algorithm.collective;
  for (const Hosts& hosts : hosts_of(size, algorithm.reads == Algorithm::Reads::inside_hosts)) {
    for (const Sizes& sizes : sizes_of(collective, size)) {
      for (const Rank root : roots_of(collective, size)) {
        for (const bool counts_known : {true, false}) {
          if (!counts_known && !rooted_parts(collective)) continue;
          const Case next = make_case(collective, size, root, sizes, counts_known, hosts);
          if (fits_all(algorithm, next.problems)) visit(next);
        }
      }
    }
  }
}

std::vector<BatchMember> random_batch(std::span<const Algorithm> algorithms, Rank size, std::mt19937_64& random) {
  const auto one_of = [&random](const auto& all) -> decltype(auto) { return all[random() % all.size()]; };
  const std::vector<Hosts> all_hosts = hosts_of(size, true);
  const Hosts& hosts = one_of(all_hosts);
  const size_t members = 2 + random() % 4;
  std::vector<BatchMember> batch;
  for (size_t tries = 0; batch.size() < members && tries < 100; ++tries) {
    const Algorithm& algorithm = one_of(algorithms);
    const std::vector<Sizes> sizes = sizes_of(algorithm.collective, size);
    const std::vector<Rank> roots = roots_of(algorithm.collective, size);
    const bool counts_known = !rooted_parts(algorithm.collective) || random() % 2 == 0;
    Case chosen = make_case(algorithm.collective, size, one_of(roots), one_of(sizes), counts_known, hosts);
    if (!fits_all(algorithm, chosen.problems)) continue;
    const bool in_place = algorithm.in_place && chosen.in_place_possible && random() % 2 == 0;
    batch.push_back({&algorithm, std::move(chosen), in_place});
  }
  return batch;
}

std::vector<Schedule> plan_all(const Algorithm& algorithm, const Case& test_case) {
  std::vector<Schedule> schedules;
  schedules.reserve(test_case.problems.size());
  for (const Problem& problem : test_case.problems) schedules.push_back(algorithm.plan(problem));
  return schedules;
}

std::vector<Schedule> plan_all(std::span<const BatchMember> batch) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < batch[0].test_case.problems.size(); ++rank) {
    std::vector<Schedule> members;
    for (const BatchMember& member : batch) members.push_back(member.algorithm->plan(member.test_case.problems[rank]));
    schedules.push_back(algorithms::plan_batch(members));
  }
  return schedules;
}

}  // namespace regroup::verify
