// SPDX-License-Identifier: Apache-2.0
#include "backend/native/plans.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "algorithms/batch.h"
#include "base/hash.h"
#include "reduce/reduce.h"

namespace regroup::backend::native {

using algorithms::Algorithm;
using plan::Problem;

namespace {

// Pipelined planners move about so many bytes at a time: a share of a core's own cache.
constexpr uint64_t kBlockBytes = 128 << 10;

// The same on all ranks. Where ranks read each other's memory, each thread of a rank has its share of a block.
uint64_t block_bytes(const Request& request, const GroupFacts& facts) {
  if (!facts.one_sided_inside_hosts) return kBlockBytes;
  const uint64_t bytes = agreed_bytes(request, facts.size);
  return bytes == 0 || bytes >= executor::kTeamOperation ? kBlockBytes * facts.threads : kBlockBytes;
}

// Eager operations whose sizes differ by pair: of so many ranks at most, and what is shown for each besides its data.
constexpr Rank kMostPairs = 512;
constexpr uint64_t kPairBytes = sizeof(uint32_t);

uint64_t sum(const std::vector<uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

// Of what `rank` gives to all others; counts' sums may overflow, so no further than beyond `limit`.
uint64_t shown_bytes(const std::vector<uint64_t>& counts, Rank rank, uint64_t width, uint64_t limit) {
  uint64_t bytes = 0;
  for (Rank other = 0; other < counts.size(); ++other) {
    if (other == rank) continue;
    if (counts[other] > limit || bytes > limit) return limit + 1;
    bytes += counts[other] * width;
  }
  return bytes;
}

}  // namespace

transport::Signature signature_of(const Request& request) {
  transport::Signature signature;
  signature.collective = request.collective;
  signature.type = request.type;
  if (request.collective == Collective::batch) {
    signature.count = request.members.size();
    signature.type = DataType::uint8;
    uint64_t hash = 0;
    for (const Request& member : request.members) {
      hash = base::mix(hash, point_to_point(member.collective) ? 1 : fingerprint(signature_of(member)));
    }
    signature.options_hash = hash;
    signature.flags = request.atomic ? transport::Signature::kAtomic : 0;
    return signature;
  }
  if (reduces(request.collective)) {
    signature.op = request.op.kind;
    signature.factor_bits =
        request.op.kind == ReduceOp::Kind::premultiplied_sum ? std::bit_cast<uint64_t>(request.op.factor) : 0;
  }
  signature.flags = static_cast<uint8_t>((request.atomic ? transport::Signature::kAtomic : 0) |
                                         (request.reproducible ? transport::Signature::kReproducible : 0) |
                                         (request.counts_known ? transport::Signature::kCountsKnown : 0));
  if (has_root(request.collective)) signature.root = request.root;
  switch (request.collective) {
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      signature.count = request.count;
      break;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      // Whether the parts were given as one buffer or as a list is not told apart where the counts are known anyway.
      if (request.equal) {
        signature.count = request.count;
      } else if (request.collective != Collective::all_to_all) {
        signature.counts_hash = base::hash_bytes(request.counts.data(), request.counts.size() * sizeof(uint64_t), 1);
        signature.count = sum(request.counts);
      }
      break;
    case Collective::gather:
    case Collective::scatter:
      if (request.counts_known) {
        signature.counts_hash = base::hash_bytes(request.counts.data(), request.counts.size() * sizeof(uint64_t), 1);
        signature.count = sum(request.counts);
      }
      break;
    default:
      break;
  }
  if (!request.algorithm.empty()) signature.options_hash = base::hash_bytes(request.algorithm, 2);
  return signature;
}

Problem problem_of(const Request& request, const GroupFacts& facts) {
  Problem problem;
  problem.collective = request.collective;
  problem.rank = facts.rank;
  problem.size = facts.size;
  problem.root = request.root;
  problem.count = request.count;
  problem.counts_known = request.counts_known;
  problem.equal_counts = request.equal;
  problem.topology = facts.topology;
  problem.counts = request.counts;
  problem.receive_counts = request.receive_counts;
  const bool has_parts = request.collective == Collective::all_gather ||
                         request.collective == Collective::reduce_scatter ||
                         request.collective == Collective::all_to_all;
  if (has_parts && request.equal) {
    problem.counts.assign(facts.size, request.count);
    if (request.collective == Collective::all_to_all) problem.receive_counts = problem.counts;
  }
  problem.block = std::max<uint64_t>(1, block_bytes(request, facts) / size_of(request.type));
  return problem;
}

uint64_t agreed_bytes(const Request& request, Rank size) {
  const uint64_t width = size_of(request.type);
  switch (request.collective) {
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      return request.count * width;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (request.equal ? request.count * size : sum(request.counts)) * width;
    case Collective::all_to_all:
      return request.equal ? request.count * size * width : 0;
    case Collective::gather:
    case Collective::scatter:
      return request.counts_known ? sum(request.counts) * width : 0;
    default:
      return 0;
  }
}

bool differs_by_pair(const Request& request) { return request.collective == Collective::all_to_all && !request.equal; }

bool takes_eager_path(const Request& request, Rank rank, Rank size, uint64_t limit) {
  if (limit == 0 || request.collective == Collective::batch) return false;
  if (!request.algorithm.empty() && request.algorithm != "eager") return false;
  const uint64_t width = size_of(request.type);
  switch (request.collective) {
    case Collective::barrier:
      return true;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      return request.count * width <= limit;
    case Collective::all_gather:
      if (request.equal) return request.count * width <= limit;
      return *std::max_element(request.counts.begin(), request.counts.end()) * width <= limit;
    case Collective::gather:
      return request.counts_known && *std::max_element(request.counts.begin(), request.counts.end()) * width <= limit;
    case Collective::scatter:
      return request.counts_known && agreed_bytes(request, size) <= limit;
    case Collective::reduce_scatter:
      return agreed_bytes(request, size) <= limit;
    case Collective::all_to_all:
      if (request.equal) return agreed_bytes(request, size) <= limit;
      return size <= kMostPairs && shown_bytes(request.counts, rank, width, limit) + size * kPairBytes <= limit;
    default:
      return false;
  }
}

bool add_pair_sizes(const Request& request, Rank rank, uint64_t weight, std::vector<uint64_t>* gives,
                    std::vector<uint64_t>* takes) {
  const uint64_t width = size_of(request.type) * weight;
  switch (request.collective) {
    case Collective::all_to_all:
      if (request.equal) return false;
      for (size_t r = 0; r < gives->size(); ++r) {
        (*gives)[r] += request.counts[r] * width;
        (*takes)[r] += request.receive_counts[r] * width;
      }
      return true;
    case Collective::gather:
    case Collective::scatter: {
      if (request.counts_known) return false;
      const bool gathers = request.collective == Collective::gather;
      std::vector<uint64_t>& outer = gathers ? *gives : *takes;
      std::vector<uint64_t>& at_root = gathers ? *takes : *gives;
      outer[request.root] += request.count * width;
      if (rank == request.root) {
        for (size_t r = 0; r < at_root.size(); ++r) at_root[r] += request.counts[r] * width;
      }
      return true;
    }
    case Collective::batch: {
      bool any = false;
      for (size_t i = 0; i < request.members.size(); ++i) {
        any |= add_pair_sizes(request.members[i], rank, base::mix(i, 3) | 1, gives, takes);
      }
      return any;
    }
    default:
      return false;
  }
}

algorithms::Facts selection_facts(const Request& request, const Problem& problem, const GroupFacts& facts,
                                  bool staging) {
  algorithms::Facts selection;
  selection.staging = staging;
  selection.one_sided_everywhere = facts.one_sided_everywhere;
  selection.one_sided_inside_hosts = facts.one_sided_inside_hosts;
  selection.single_fold_needed =
      reduces(request.collective) &&
      (request.reproducible || !reduction::partial_results_allowed(request.type, request.op.kind));
  selection.bytes = agreed_bytes(request, problem.size);
  return selection;
}

namespace {

Result<const Algorithm*> choose_for(const Request& request, const Problem& problem, const GroupFacts& facts) {
  const algorithms::Facts selection = selection_facts(request, problem, facts);
  if (request.algorithm.empty() || request.algorithm == "eager")
    return algorithms::select(problem, selection, facts.tuning.get()).algorithm;
  const Algorithm* named = algorithms::find(request.collective, request.algorithm);
  if (named == nullptr) {
    std::string known;
    for (const Algorithm& algorithm : algorithms::catalogue()) {
      if (algorithm.collective == request.collective)
        known += (known.empty() ? "" : ", ") + std::string(algorithm.name);
    }
    return Status(StatusCode::invalid_argument, "no algorithm \"" + request.algorithm + "\" for " +
                                                    std::string(name(request.collective)) + "; there are: " + known);
  }
  if (!algorithms::usable(*named, problem, selection)) {
    return Status(StatusCode::unsupported, "algorithm \"" + request.algorithm + "\" cannot serve this " +
                                               std::string(name(request.collective)) +
                                               ": it does not fit these sizes, ranks, types or this transport");
  }
  return named;
}

}  // namespace

Status check_algorithm(const Request& request, const GroupFacts& facts) {
  if (request.algorithm.empty()) return Status();
  if (request.algorithm == "eager") return Status();
  return choose_for(request, problem_of(request, facts), facts).status();
}

size_t PlanCache::Hash::operator()(const Key& key) const {
  return base::hash_bytes(key.words.data(), key.words.size() * sizeof(uint64_t));
}

// Everything that planning goes by, and nothing else.
void PlanCache::put_words(const Request& request) {
  auto& words = key_.words;
  words.push_back(static_cast<uint64_t>(request.collective) | static_cast<uint64_t>(request.type) << 8 |
                  static_cast<uint64_t>(request.op.kind) << 16 | uint64_t{request.reproducible} << 24 |
                  uint64_t{request.counts_known} << 25 | uint64_t{request.equal} << 26 | uint64_t{request.root} << 32);
  words.push_back(request.count);
  words.push_back(request.algorithm.empty() ? 0 : base::hash_bytes(request.algorithm));
  words.push_back(request.counts.size() << 32 | request.receive_counts.size());
  words.insert(words.end(), request.counts.begin(), request.counts.end());
  words.insert(words.end(), request.receive_counts.begin(), request.receive_counts.end());
  for (const Request& member : request.members) put_words(member);
}

Result<std::shared_ptr<const Plan>> PlanCache::find(const Request& request) {
  key_.words.clear();
  put_words(request);
  if (const auto known = plans_.find(key_); known != plans_.end()) {
    order_.splice(order_.begin(), order_, known->second.used);
    return known->second.plan;
  }
  auto made = request.collective == Collective::batch ? make_batch(request) : make(request);
  if (!made.ok()) return made.status();
  std::shared_ptr<const Plan> plan = std::move(made).value();
  bytes_ += plan->bytes();
  while (bytes_ > kMostBytes && !order_.empty()) {
    const auto oldest = plans_.find(order_.back());
    bytes_ -= oldest->second.plan->bytes();
    plans_.erase(oldest);
    order_.pop_back();
  }
  order_.push_front(key_);
  plans_.emplace(key_, Entry{plan, order_.begin()});
  return plan;
}

// Where sizes differ by pair, staged blocks cannot grow, so that a plan's length is that of the data: up to a point.
bool PlanCache::too_long_to_stage(const Request& request) {
  uint64_t longest = 0;
  for (const auto* counts : {&request.counts, &request.receive_counts}) {
    for (const uint64_t count : *counts) longest = std::max(longest, count);
  }
  return request.collective == Collective::all_to_all && longest > kMostStagedBytes / size_of(request.type);
}

Result<std::shared_ptr<Plan>> PlanCache::make(const Request& request) {
  const Problem problem = problem_of(request, facts_);
  Result<const Algorithm*> chosen = choose_for(request, problem, facts_);
  if (!chosen.ok()) return chosen.status();
  const Algorithm& algorithm = **chosen;
  auto plan = std::make_shared<Plan>(algorithm.plan(problem));
  plan->in_place = algorithm.in_place;
  plan->algorithm = algorithm.name;
  if (facts_.one_sided_everywhere && request.algorithm.empty() && !too_long_to_stage(request)) {
    const Algorithm& staged =
        *algorithms::select(problem, selection_facts(request, problem, facts_, true), facts_.tuning.get()).algorithm;
    if (&staged != &algorithm) {
      auto other = std::make_shared<Plan>(staged.plan(problem));
      other->in_place = staged.in_place;
      other->algorithm = staged.name;
      plan->staged = std::move(other);
    }
  }
  return plan;
}

Result<std::shared_ptr<Plan>> PlanCache::make_batch(const Request& request) {
  std::vector<plan::Schedule> schedules;
  bool in_place = true;
  for (const Request& member : request.members) {
    Problem problem = problem_of(member, facts_);
    problem.block = std::max(problem.block, algorithms::least_block_in_batch(std::max(member.count, sum(member.counts)),
                                                                             request.members.size()));
    Result<const Algorithm*> chosen = choose_for(member, problem, facts_);
    if (!chosen.ok()) return chosen.status();
    schedules.push_back((*chosen)->plan(problem));
    in_place &= (*chosen)->in_place;
  }
  auto plan = std::make_shared<Plan>(algorithms::plan_batch(schedules));
  plan->in_place = in_place;
  plan->algorithm = "batch";
  return plan;
}

executor::Binding bind(const Request& request, std::byte* scratch, uint64_t scratch_count, Rank size) {
  executor::Binding binding;
  const uint32_t width = static_cast<uint32_t>(size_of(request.type));
  binding.memory.element_bytes = width;
  binding.memory.spaces[0] = request.input;
  binding.memory.spaces[1] = request.output;
  binding.memory.spaces[2] = {scratch, scratch_count * width, nullptr, 1};
  if (reduces(request.collective)) {
    binding.folding.fold = reduction::find_fold(request.type, request.op.kind);
    binding.folding.options.factor = request.op.factor;
    binding.folding.options.divisor = request.op.kind == ReduceOp::Kind::average ? size : 0;
    binding.folding.element_bytes = width;
  }
  return binding;
}

}  // namespace regroup::backend::native
