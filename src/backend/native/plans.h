// SPDX-License-Identifier: Apache-2.0
// From a checked request to what is run: its signature, the problem it poses, the algorithm selected, the program
// (cached), and the memory it is bound to.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/tuning.h"
#include "backend/request.h"
#include "executor/execution.h"
#include "executor/program.h"
#include "plan/topology.h"
#include "regroup/status.h"
#include "transport/signature.h"

namespace regroup::backend::native {

// What a group's plans depend on besides the request; agreed by all ranks.
struct GroupFacts {
  uint64_t epoch = 1;
  Rank rank = 0;
  Rank size = 1;
  plan::Topology topology;
  bool one_sided_everywhere = false;
  bool one_sided_inside_hosts = false;
  unsigned threads = 1;                              // of each rank
  std::shared_ptr<const algorithms::Tuning> tuning;  // nullptr: none
};

// A program, and whether the caller's input has to be copied out of the way where it shares memory with the output.
struct Plan {
  explicit Plan(plan::Schedule schedule) : program(std::move(schedule)) {}
  executor::Program program;
  bool in_place = true;
  std::string algorithm;
  // What runs instead where some rank wants staging; nullptr where that makes no difference.
  std::shared_ptr<const Plan> staged;

  // Of both.
  bool moves_nothing() const { return in_place && (staged == nullptr || staged->in_place); }
  bool one_sided() const {
    return program.schedule().one_sided() || (staged != nullptr && staged->program.schedule().one_sided());
  }
  uint64_t bytes() const { return program.bytes() + (staged != nullptr ? staged->program.bytes() : 0); }
};

transport::Signature signature_of(const Request& request);

// The problem as planners see it.
plan::Problem problem_of(const Request& request, const GroupFacts& facts);
algorithms::Facts selection_facts(const Request& request, const plan::Problem& problem, const GroupFacts& facts,
                                  bool staging = false);

// Bytes of the larger side of the operation, as the command line counts them; agreed, or 0 where sizes differ by pair.
uint64_t agreed_bytes(const Request& request, Rank size);

// Whether it goes by the eager path, where a rank's input may have `limit` bytes (0: there is none). Agreed, but where
// sizes differ by pair: there it says whether this rank can, and all go by plan if one cannot.
bool takes_eager_path(const Request& request, Rank rank, Rank size, uint64_t limit);
bool differs_by_pair(const Request& request);

// Adds to `gives` and `takes` the bytes that this rank gives to and takes from each, where that may differ by pair;
// false where it may not. Members of a batch add up with weights (an operation's own is 1), so that sums are equal
// where all sizes are.
bool add_pair_sizes(const Request& request, Rank rank, uint64_t weight, std::vector<uint64_t>* gives,
                    std::vector<uint64_t>* takes);

// Plans that were made, the least recently used of them dropped when they exceed `kMostBytes`. Used by the driver
// alone.
class PlanCache {
 public:
  explicit PlanCache(GroupFacts facts) : facts_(std::move(facts)) {}

  // `unsupported` or `invalid_argument` where the algorithm asked for does not exist or cannot serve.
  Result<std::shared_ptr<const Plan>> find(const Request& request);

 private:
  static constexpr uint64_t kMostBytes = 32 << 20;
  struct Key {
    std::vector<uint64_t> words;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  struct Entry {
    std::shared_ptr<const Plan> plan;
    std::list<Key>::iterator used;
  };

  static constexpr uint64_t kMostStagedBytes = 256 << 20;  // of a part
  static bool too_long_to_stage(const Request& request);
  void put_words(const Request& request);
  Result<std::shared_ptr<Plan>> make(const Request& request);
  Result<std::shared_ptr<Plan>> make_batch(const Request& request);

  GroupFacts facts_;
  Key key_;  // of the request at hand; reused
  std::unordered_map<Key, Entry, Hash> plans_;
  std::list<Key> order_;  // most recently used first
  uint64_t bytes_ = 0;
};

// Whether an algorithm can be asked for by this request at all; for checking arguments before anything is sent.
Status check_algorithm(const Request& request, const GroupFacts& facts);

// Binds one request (no batch) to memory. `scratch` holds the member's scratch.
executor::Binding bind(const Request& request, std::byte* scratch, uint64_t scratch_count, Rank size);

}  // namespace regroup::backend::native
