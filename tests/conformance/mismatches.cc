// SPDX-License-Identifier: Apache-2.0
// Calls that do not match: one rank calls another thing than the rest. All get `mismatch` well before the deadline, and
// the group goes on.
#include <chrono>
#include <functional>

#include "conformance/member.h"

namespace regroup::conformance {

namespace {

struct Ground {
  Rank rank, size;
  bool odd;  // this rank is the one that differs
  float* a;
  float* b;
  Buffer at(float* data, uint64_t count, DataType type = DataType::float32) const { return {data, type, count}; }
};

struct Mismatch {
  const char* name;
  // Who may have returned before it shows, and learns of it at the next call. Where only what rank 0 gets from one
  // other does not fit, the others have what they should, and the one may have sent it already.
  enum Early : uint8_t { nobody, anybody, others } early;
  Operation (*make)(const Ground& ground);
};

constexpr Mismatch kMismatches[] = {
    {"count", Mismatch::nobody, [](const Ground& g) { return all_reduce(in_place(g.at(g.a, g.odd ? 7 : 8))); }},
    {"large_count", Mismatch::nobody,
     [](const Ground& g) { return all_reduce(in_place(g.at(g.a, g.odd ? 30001 : 30000))); }},
    {"type_of_equal_width", Mismatch::nobody,
     [](const Ground& g) { return all_reduce(in_place(g.at(g.a, 8, g.odd ? DataType::int32 : DataType::float32))); }},
    {"operator", Mismatch::nobody,
     [](const Ground& g) { return all_reduce(in_place(g.at(g.a, 8)), g.odd ? ReduceOp::maximum : ReduceOp::sum); }},
    {"factor", Mismatch::nobody,
     [](const Ground& g) {
       return all_reduce(in_place(g.at(g.a, 8)), ReduceOp::premultiplied_sum(g.odd ? 0.5 : 0.25));
     }},
    {"root_of_broadcast", Mismatch::anybody,
     [](const Ground& g) { return broadcast(in_place(g.at(g.a, 8)), g.odd ? 1 : 0); }},
    {"root_of_reduce", Mismatch::anybody,
     [](const Ground& g) { return reduce(in_place(g.at(g.a, 8)), ReduceOp::sum, g.odd ? 1 : 0); }},
    {"collective", Mismatch::nobody,
     [](const Ground& g) {
       return g.odd ? all_gather(from(g.at(g.a, 8)), into(g.at(g.b, uint64_t{g.size} * 8)))
                    : all_reduce(in_place(g.at(g.a, 8)));
     }},
    {"barrier_against_sum", Mismatch::nobody,
     [](const Ground& g) { return g.odd ? barrier() : all_reduce(in_place(g.at(g.a, 8))); }},
    {"counts", Mismatch::nobody,
     [](const Ground& g) {
       Counts counts(g.size, 8);
       if (g.odd) counts[0] = 9;
       return all_gather(from(g.at(g.a, counts[g.rank])), into(g.at(g.b, uint64_t{g.size} * 8 + (g.odd ? 1 : 0))),
                         counts);
     }},
    {"reproducible", Mismatch::nobody,
     [](const Ground& g) {
       CallOptions options;
       options.reproducible = g.odd;
       return all_reduce(in_place(g.at(g.a, 8)), ReduceOp::sum, options);
     }},
    {"batch", Mismatch::nobody,
     [](const Ground& g) {
       return batch({all_reduce(in_place(g.at(g.a, 8))), broadcast(in_place(g.at(g.b, g.odd ? 3 : 4)), 0)});
     }},
    {"pair_sizes", Mismatch::others,
     [](const Ground& g) {
       Counts gives(g.size, 4), takes(g.size, 4);
       if (g.odd) gives[0] = 5;  // rank 0 expects 4
       return all_to_all(from(g.at(g.a, uint64_t{g.size} * 4 + (g.odd ? 1 : 0))), into(g.at(g.b, uint64_t{g.size} * 4)),
                         gives, takes);
     }},
    // The same where that rank gives so much that it does not show it, as the others do.
    {"pair_sizes_of_a_long_list", Mismatch::others,
     [](const Ground& g) {
       Counts gives(g.size, 4), takes(g.size, 4);
       if (g.odd) gives[0] = 20000;  // rank 0 expects 4
       uint64_t given = 0;
       for (const uint64_t count : gives) given += count;
       return all_to_all(from(g.at(g.a, given)), into(g.at(g.b, uint64_t{g.size} * 4)), gives, takes);
     }},
};

}  // namespace

const std::vector<std::string>& mismatch_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Mismatch& one : kMismatches) list.emplace_back(one.name);
    return list;
  }();
  return names;
}

Outcome Member::run_mismatch(size_t index) {
  const Mismatch& mismatch = kMismatches[index];
  const Rank size = group_.size();
  if (size == 1) return {};
  std::vector<float> a(30001, 1.5f), b(uint64_t{size} * 8 + 8, 2.5f);
  const Operation operation = mismatch.make({group_.rank(), size, group_.rank() == size - 1, a.data(), b.data()});
  const auto begin = std::chrono::steady_clock::now();
  const Status status = group_.run(operation);
  const auto took = std::chrono::steady_clock::now() - begin;
  const bool may_return =
      mismatch.early == Mismatch::anybody || (mismatch.early == Mismatch::others && group_.rank() != 0);
  const bool returned = status.ok() && may_return;
  if (!returned && status.code() != StatusCode::mismatch) return Outcome::lost("gave " + status.to_string());
  if (took > group_.timeout() / 2) return Outcome::failed("took long to notice");
  if (!returned && status.message().empty()) return Outcome::failed("gave no reason");
  // A rank that had returned learns of it at its next call, which then fails everywhere.
  return probe(!returned);
}

}  // namespace regroup::conformance
