// SPDX-License-Identifier: Apache-2.0
// Calls that are wrong by themselves. Nothing may be sent for them: all ranks make the same one, and each gets the code
// at once, by whichever way it calls.
#include <chrono>
#include <cstring>
#include <limits>

#include "conformance/member.h"

namespace regroup::conformance {

namespace {

struct Ground {
  Rank rank, size;
  float* a;  // `size` × 8 elements each, apart
  float* b;
  Buffer at(float* data, uint64_t count) const { return {data, DataType::float32, count}; }
  Buffer whole(float* data) const { return at(data, uint64_t{size} * 8); }
};

struct Refusal {
  const char* name;
  Operation (*make)(const Ground& ground);
  bool may_be_unsupported;
};

std::vector<Buffer> cut(const Ground& g, float* data, Rank parts) {
  std::vector<Buffer> list;
  for (Rank part = 0; part < parts; ++part) list.push_back(g.at(data + (part % g.size) * 8, 8));
  return list;
}

constexpr Refusal kRefusals[] = {
    {"counts_too_many",
     [](const Ground& g) { return reduce_scatter(from(g.whole(g.a)), into(g.at(g.b, 8)), Counts(g.size + 1, 8)); },
     false},
    {"counts_beyond_buffer",
     [](const Ground& g) { return all_gather(from(g.at(g.a, 9)), into(g.whole(g.b)), Counts(g.size, 9)); }, false},
    {"counts_not_own",
     [](const Ground& g) { return all_gather(from(g.at(g.a, 7)), into(g.whole(g.b)), Counts(g.size, 8)); }, false},
    {"counts_that_overflow",
     [](const Ground& g) {
       Counts counts(g.size, 8);
       counts[0] = std::numeric_limits<uint64_t>::max() - 4;
       return all_to_all(from(g.whole(g.a)), into(g.whole(g.b)), counts, Counts(g.size, 8));
     },
     false},
    {"list_too_short",
     [](const Ground& g) { return all_to_all(from(cut(g, g.a, g.size - 1)), into(cut(g, g.b, g.size))); }, false},
    {"list_too_long", [](const Ground& g) { return all_gather(from(g.at(g.a, 8)), into(cut(g, g.b, g.size + 1))); },
     false},
    {"null_with_count", [](const Ground& g) { return all_reduce(from(g.at(nullptr, 8)), into(g.at(g.b, 8))); }, false},
    {"null_output", [](const Ground& g) { return broadcast(in_place(g.at(nullptr, 8)), 0); }, false},
    {"count_that_overflows",
     [](const Ground& g) { return all_reduce(in_place(Buffer(g.a, DataType::float64, uint64_t{1} << 61))); }, false},
    {"partial_overlap", [](const Ground& g) { return all_reduce(from(g.at(g.a, 6)), into(g.at(g.a + 2, 6))); }, false},
    {"sides_differ_in_count", [](const Ground& g) { return all_reduce(from(g.at(g.a, 8)), into(g.at(g.b, 7))); },
     false},
    {"sides_differ_in_type",
     [](const Ground& g) { return all_reduce(from(g.at(g.a, 8)), into(Buffer(g.b, DataType::int32, 8))); }, false},
    {"bits_of_floats", [](const Ground& g) { return all_reduce(in_place(g.at(g.a, 8)), ReduceOp::bit_and); }, true},
    {"order_of_complex",
     [](const Ground& g) { return all_reduce(in_place(Buffer(g.a, DataType::complex64, 4)), ReduceOp::maximum); },
     true},
    {"average_of_bool",
     [](const Ground& g) { return reduce(in_place(Buffer(g.a, DataType::boolean, 4)), ReduceOp::average, 0); }, true},
    {"root_out_of_range", [](const Ground& g) { return broadcast(in_place(g.at(g.a, 8)), g.size); }, false},
    {"root_far_out_of_range",
     [](const Ground& g) { return reduce(in_place(g.at(g.a, 8)), ReduceOp::sum, std::numeric_limits<Rank>::max()); },
     false},
    {"peer_out_of_range", [](const Ground& g) { return send(from(g.at(g.a, 8)), g.size); }, false},
    {"source_out_of_range", [](const Ground& g) { return receive(into(g.at(g.a, 8)), g.size + 5); }, false},
    {"unknown_algorithm",
     [](const Ground& g) {
       CallOptions options;
       options.algorithm = "no_such_algorithm";
       return all_reduce(in_place(g.at(g.a, 8)), ReduceOp::sum, options);
     },
     true},
    {"unknown_type", [](const Ground& g) { return all_reduce(in_place(Buffer(g.a, static_cast<DataType>(99), 8))); },
     false},
    {"unknown_operator",
     [](const Ground& g) {
       return all_reduce(in_place(g.at(g.a, 8)), ReduceOp{static_cast<ReduceOp::Kind>(99), 1.0});
     },
     true},
    {"no_time",
     [](const Ground& g) {
       CallOptions options;
       options.timeout = std::chrono::seconds(-1);
       return all_reduce(in_place(g.at(g.a, 8)), ReduceOp::sum, options);
     },
     false},
    {"batch_with_a_wrong_member",
     [](const Ground& g) {
       return batch({all_reduce(in_place(g.at(g.a, 8))), broadcast(in_place(g.at(g.b, 8)), g.size)});
     },
     false},
};

// Only where there are several ranks.
constexpr Refusal kShared[] = {
    {"counts_too_few",
     [](const Ground& g) { return all_gather(from(g.at(g.a, 8)), into(g.whole(g.b)), Counts(g.size - 1, 8)); }, false},
    {"parts_not_equal",
     [](const Ground& g) { return all_to_all(from(g.at(g.a, g.size * 8 - 1)), into(g.at(g.b, g.size * 8 - 1))); },
     false},
    {"list_of_overlapping_parts",
     [](const Ground& g) {
       std::vector<Buffer> outputs = cut(g, g.b, g.size);
       outputs[1].data = static_cast<float*>(outputs[0].data) + 4;
       return all_to_all(from(cut(g, g.a, g.size)), into(outputs));
     },
     false},
    {"parts_of_two_types",
     [](const Ground& g) {
       std::vector<Buffer> inputs = cut(g, g.a, g.size);
       inputs[1].type = DataType::int32;
       return all_to_all(from(inputs), into(cut(g, g.b, g.size)));
     },
     false},
};

const Refusal& refusal(size_t index) {
  return index < std::size(kRefusals) ? kRefusals[index] : kShared[index - std::size(kRefusals)];
}

Status refused_by(ProcessGroup& group, const Operation& operation, size_t way) {
  if (way == 0) return group.run(operation);
  if (way == 1) return group.start(operation).wait();
  return group.prepare(operation).status();
}

}  // namespace

const std::vector<std::string>& refusal_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Refusal& one : kRefusals) list.emplace_back(one.name);
    for (const Refusal& one : kShared) list.emplace_back(one.name);
    return list;
  }();
  return names;
}

Outcome Member::run_refusal(size_t index) {
  const Refusal& wrong = refusal(index);
  const Rank size = group_.size();
  if (index >= std::size(kRefusals) && size == 1) return {};
  std::vector<float> a(uint64_t{size} * 8 + 8, 1.5f), b(uint64_t{size} * 8 + 8, 2.5f);
  const std::vector<float> a_before = a, b_before = b;
  const Operation operation = wrong.make({group_.rank(), size, a.data(), b.data()});
  static constexpr const char* kWays[] = {"run", "start", "prepare"};
  for (size_t way = 0; way < 3; ++way) {
    const auto begin = std::chrono::steady_clock::now();
    const Status status = refused_by(group_, operation, way);
    const auto took = std::chrono::steady_clock::now() - begin;
    const bool right = status.code() == StatusCode::invalid_argument ||
                       (wrong.may_be_unsupported && status.code() == StatusCode::unsupported);
    if (!right) return Outcome::failed(std::string(kWays[way]) + " gave " + status.to_string());
    if (took > std::chrono::seconds(2)) return Outcome::failed(std::string(kWays[way]) + " took long to refuse");
    if (status.message().empty()) return Outcome::failed(std::string(kWays[way]) + " gave no reason");
  }
  if (a != a_before || b != b_before) return Outcome::failed("a refused call wrote its buffers");
  return probe(true);
}

}  // namespace regroup::conformance
