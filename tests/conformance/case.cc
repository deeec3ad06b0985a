// SPDX-License-Identifier: Apache-2.0
#include "conformance/case.h"

#include <algorithm>

#include "algorithms/catalogue.h"
#include "conformance/numbers.h"
#include "plan/problem.h"
#include "reduce/reduce.h"

namespace regroup::conformance {

namespace {

constexpr Collective kCovered[] = {Collective::barrier,    Collective::broadcast,      Collective::reduce,
                                   Collective::all_reduce, Collective::gather,         Collective::all_gather,
                                   Collective::scatter,    Collective::reduce_scatter, Collective::all_to_all,
                                   Collective::send,       Collective::receive_any};
constexpr Rank kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 17};
constexpr int kMostAlgorithms = 12;

// Sizes: small ones in elements of a part; then bytes of a rank's larger side, around the limits at which
// implementations tend to change their ways.
struct Size {
  const char* name;
  enum Unit : uint8_t { elements, ranks, bytes } unit;
  int64_t amount;
  int64_t more;  // elements
};
constexpr Size kSizes[] = {
    {"0", Size::elements, 0, 0},       {"1", Size::elements, 1, 0},       {"P-1", Size::ranks, 0, -1},
    {"P", Size::ranks, 0, 0},          {"P+1", Size::ranks, 0, 1},        {"7", Size::elements, 7, 0},
    {"63", Size::elements, 63, 0},     {"64", Size::elements, 64, 0},     {"65", Size::elements, 65, 0},
    {"1000", Size::elements, 1000, 0}, {"40B-1", Size::bytes, 40, -1},    {"40B", Size::bytes, 40, 0},
    {"40B+1", Size::bytes, 40, 1},     {"4K-1", Size::bytes, 4096, -1},   {"4K", Size::bytes, 4096, 0},
    {"4K+1", Size::bytes, 4096, 1},    {"8K-1", Size::bytes, 8192, -1},   {"8K", Size::bytes, 8192, 0},
    {"8K+1", Size::bytes, 8192, 1},    {"64K-1", Size::bytes, 65536, -1}, {"64K", Size::bytes, 65536, 0},
    {"64K+1", Size::bytes, 65536, 1},  {"200K", Size::bytes, 204800, 0},  {"300K", Size::bytes, 307200, 3},
};

std::vector<std::vector<std::string>> all_names() {
  std::vector<std::vector<std::string>> names(kDimensions);
  const auto at = [&names](Dimension d) -> std::vector<std::string>& { return names[static_cast<size_t>(d)]; };
  for (const Collective c : kCovered) at(Dimension::collective).emplace_back(name(c));
  for (int type = 0; type < kDataTypes; ++type) at(Dimension::type).emplace_back(name(static_cast<DataType>(type)));
  for (int op = 0; op < kReduceOps; ++op) at(Dimension::op).emplace_back(name(static_cast<ReduceOp::Kind>(op)));
  at(Dimension::wire) = {"shm", "shm_without_reads", "tcp", "two_hosts", "three_hosts"};
  for (const Rank ranks : kRanks) at(Dimension::ranks).push_back(std::to_string(ranks));
  at(Dimension::launch) = {"threads", "forked"};
  for (const Size& size : kSizes) at(Dimension::size).emplace_back(size.name);
  at(Dimension::spread) = {"equal", "uneven", "gaps", "single"};
  at(Dimension::placement) = {"apart", "in_place", "varied"};
  at(Dimension::form) = {"one", "counts", "list", "varied_form"};
  at(Dimension::memory) = {"ordinary", "allocated", "by_rank", "by_part"};
  at(Dimension::root) = {"root_first", "root_middle", "root_last"};
  at(Dimension::call) = {"run", "start", "prepared", "batch", "overlapped"};
  at(Dimension::order) = {"any_order", "reproducible"};
  at(Dimension::algorithm) = {"chosen"};
  for (int k = 1; k <= kMostAlgorithms; ++k) at(Dimension::algorithm).push_back("algorithm" + std::to_string(k));
  at(Dimension::values) = {"exact", "rounding", "special"};
  at(Dimension::alignment) = {"aligned", "shifted"};
  return names;
}

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185ull;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44dull;
  return x ^ (x >> 33);
}

const algorithms::Algorithm* named_algorithm(const Case& c) {
  uint8_t left = c.algorithm;
  if (left == 0) return nullptr;
  for (const algorithms::Algorithm& algorithm : algorithms::catalogue()) {
    if (algorithm.collective == c.collective && --left == 0) return &algorithm;
  }
  return nullptr;
}

// The case as the planners see it.
plan::Problem problem_of(const Case& c) {
  plan::Problem problem;
  problem.collective = c.collective;
  problem.size = c.ranks;
  problem.root = root_of(c);
  problem.rank = problem.root;
  std::vector<uint32_t> hosts(c.ranks);
  for (Rank rank = 0; rank < c.ranks; ++rank) hosts[rank] = host_of(c.wire, c.ranks, rank);
  problem.topology = plan::Topology(hosts);
  if (c.collective == Collective::all_to_all) {
    problem.equal_counts = c.form == Form::equal;
    for (Rank peer = 0; peer < c.ranks; ++peer) {
      problem.counts.push_back(pair_count(c, problem.rank, peer));
      problem.receive_counts.push_back(pair_count(c, peer, problem.rank));
    }
  } else if (has_parts(c.collective)) {
    problem.counts = part_counts(c);
    problem.count = problem.counts[problem.rank];
    problem.counts_known = c.form == Form::counts;
  } else {
    problem.count = vector_count(c);
  }
  return problem;
}

// Whether the catalogue has such an algorithm and says that it serves. What the machine allows is assumed: all ranks of
// one host read each other's memory.
bool algorithm_usable(const Case& c) {
  const algorithms::Algorithm* algorithm = named_algorithm(c);
  if (algorithm == nullptr) return false;
  algorithms::Facts facts;
  facts.one_sided_inside_hosts = c.wire != Wire::tcp;
  facts.one_sided_everywhere = c.wire == Wire::shm || c.wire == Wire::shm_without_reads;
  facts.single_fold_needed =
      regroup::reduces(c.collective) && (c.reproducible || !reduction::partial_results_allowed(c.type, c.op));
  return algorithms::usable(*algorithm, problem_of(c), facts);
}

}  // namespace

const std::vector<std::string>& value_names(Dimension dimension) {
  static const std::vector<std::vector<std::string>> names = all_names();
  return names[static_cast<size_t>(dimension)];
}

Case case_of(const Row& row) {
  const auto at = [&row](Dimension d) { return row[static_cast<size_t>(d)]; };
  Case c;
  c.row = row;
  c.collective = kCovered[at(Dimension::collective)];
  c.type = static_cast<DataType>(at(Dimension::type));
  c.op = static_cast<ReduceOp::Kind>(at(Dimension::op));
  c.wire = static_cast<Wire>(at(Dimension::wire));
  c.ranks = kRanks[at(Dimension::ranks)];
  c.launch = static_cast<Launch>(at(Dimension::launch));
  c.size = at(Dimension::size);
  c.spread = static_cast<Spread>(at(Dimension::spread));
  c.placement = static_cast<Placement>(at(Dimension::placement));
  c.form = static_cast<Form>(at(Dimension::form));
  c.memory = static_cast<Memory>(at(Dimension::memory));
  c.root = static_cast<Root>(at(Dimension::root));
  c.call = static_cast<Call>(at(Dimension::call));
  c.reproducible = at(Dimension::order) != 0;
  c.algorithm = at(Dimension::algorithm);
  c.values = static_cast<Values>(at(Dimension::values));
  c.alignment = static_cast<Alignment>(at(Dimension::alignment));
  return c;
}

Row normalized(Row row) {
  const auto at = [&row](Dimension d) -> uint8_t& { return row[static_cast<size_t>(d)]; };
  Case c = case_of(row);
  const bool point = point_to_point(c.collective);
  if (!has_root(c.collective)) at(Dimension::root) = 0;
  if (!regroup::reduces(c.collective)) {
    at(Dimension::op) = 0;
    at(Dimension::values) = 0;
  } else if (!is_float(c.type) && !(is_complex(c.type) && c.values == Values::rounding)) {
    at(Dimension::values) = 0;
  }
  if (!has_parts(c.collective)) {
    at(Dimension::spread) = 0;
    at(Dimension::form) = 0;
  } else if (c.form == Form::equal) {
    at(Dimension::spread) = 0;
  }
  // Gather and scatter: counts are given on every rank or on none.
  if (c.form == Form::varied && (c.collective == Collective::gather || c.collective == Collective::scatter)) {
    at(Dimension::form) = static_cast<uint8_t>(Form::list);
  }
  if (point) {
    at(Dimension::placement) = 0;
    at(Dimension::order) = 0;
    at(Dimension::algorithm) = 0;
  }
  if (c.collective == Collective::receive_any && c.call != Call::run)
    at(Dimension::call) = static_cast<uint8_t>(Call::start);
  if (c.collective == Collective::barrier) {
    for (const Dimension d : {Dimension::type, Dimension::size, Dimension::placement, Dimension::memory,
                              Dimension::order, Dimension::alignment}) {
      at(d) = 0;
    }
  }
  if (c.call == Call::batch || (regroup::reduces(c.collective) && !meaningful(c.type, c.op)) ||
      !algorithm_usable(case_of(row))) {
    at(Dimension::algorithm) = 0;
  }
  return row;
}

std::string id_of(const Row& row) {
  std::string id;
  for (size_t d = 0; d < kDimensions; ++d) {
    if (d > 0) id += ':';
    id += value_names(static_cast<Dimension>(d))[row[d]];
  }
  return id;
}

std::optional<Row> row_of(std::string_view id) {
  Row row{};
  for (size_t d = 0; d < kDimensions; ++d) {
    const size_t end = d + 1 < kDimensions ? id.find(':') : id.size();
    if (end == std::string_view::npos) return std::nullopt;
    const std::vector<std::string>& names = value_names(static_cast<Dimension>(d));
    const auto found = std::find(names.begin(), names.end(), id.substr(0, end));
    if (found == names.end()) return std::nullopt;
    row[d] = static_cast<uint8_t>(found - names.begin());
    id.remove_prefix(std::min(end + 1, id.size()));
  }
  return normalized(row) == row ? std::optional(row) : std::nullopt;
}

Rank root_of(const Case& c) {
  if (!has_root(c.collective)) return 0;
  return c.root == Root::first ? 0 : c.root == Root::middle ? c.ranks / 2 : c.ranks - 1;
}

uint32_t host_of(Wire wire, Rank ranks, Rank rank) {
  // Two hosts with neighbouring ranks; three hosts dealt like cards, so that their ranks interleave.
  if (wire == Wire::two_hosts) return rank < (ranks + 1) / 2 ? 0 : 1;
  if (wire == Wire::three_hosts) return rank % 3;
  return 0;
}

uint64_t vector_count(const Case& c) {
  if (c.bytes > 0) return c.bytes / size_of(c.type);
  const Size& size = kSizes[c.size];
  int64_t count = size.amount;
  if (size.unit == Size::ranks) count = c.ranks;
  if (size.unit == Size::bytes) count /= static_cast<int64_t>(size_of(c.type));
  return static_cast<uint64_t>(std::max<int64_t>(0, count + size.more));
}

uint64_t equal_part(const Case& c) {
  const uint64_t whole = vector_count(c);
  return c.bytes > 0 || kSizes[c.size].unit == Size::bytes ? whole / c.ranks : whole;
}

namespace {

uint64_t spread_count(const Case& c, uint64_t random, bool chosen, uint64_t all) {
  const uint64_t part = equal_part(c);
  switch (c.spread) {
    case Spread::equal:
      return part;
    case Spread::uneven:
      return random % (2 * part + 2);
    case Spread::gaps:
      return random & (uint64_t{1} << 40) ? 0 : random % (2 * part + 2);
    default:
      return chosen ? all : 0;
  }
}

}  // namespace

std::vector<uint64_t> part_counts(const Case& c) {
  std::vector<uint64_t> counts(c.ranks);
  for (Rank rank = 0; rank < c.ranks; ++rank) {
    const uint64_t random = scramble((rank + 1) * 0x9e3779b97f4a7c15ull + c.size);
    counts[rank] = spread_count(c, random, rank == c.size % c.ranks, equal_part(c) * c.ranks);
  }
  return counts;
}

uint64_t pair_count(const Case& c, Rank from, Rank to) {
  // In place, what is sent to a rank is as long as what it sends back.
  const bool symmetric = c.placement != Placement::apart;
  const Rank low = symmetric ? std::min(from, to) : from, high = symmetric ? std::max(from, to) : to;
  const uint64_t random = scramble((low * 64 + high + 1) * 0x9e3779b97f4a7c15ull + c.size);
  const Rank chosen = c.size % c.ranks;
  return spread_count(c, random, from == chosen || (symmetric && to == chosen), equal_part(c));
}

std::string_view algorithm_of(const Case& c) {
  const algorithms::Algorithm* algorithm = named_algorithm(c);
  return algorithm == nullptr ? std::string_view() : algorithm->name;
}

}  // namespace regroup::conformance
