// SPDX-License-Identifier: Apache-2.0
// Faults of reductions that users of collective libraries have met, tried on this one: averages, results that differ
// between ranks or runs, types and operators that do not go together. References are to public issues.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "algorithms/catalogue.h"
#include "unit/reduce_reference.h"
#include "unit/wires.h"

namespace regroup {
namespace {

using reduction::reference::decode;
using reduction::reference::encode;

using Bits = std::vector<uint16_t>;

// Kind: an average that is none (torchcomms 287, 477; pytorch 162338): three ranks, counts that three does not divide,
// negative numbers, and a reduce_scatter that forgets to divide.
template <typename T>
void average_integers(ProcessGroup& group) {
  constexpr uint64_t kPart = 5;
  const Rank rank = group.rank();
  std::vector<T> in(3 * kPart), expected(3 * kPart), out(3 * kPart), part(kPart);
  for (uint64_t i = 0; i < in.size(); ++i) {
    const auto given = [i](Rank r) { return static_cast<T>(i * (r + 1)) - static_cast<T>(20 * r); };
    in[i] = given(rank);
    expected[i] = (given(0) + given(1) + given(2)) / 3;  // toward zero
  }
  check(group.run(all_reduce(from(in.data(), 7), into(out.data(), 7), ReduceOp::average)));
  require(std::equal(out.begin(), out.begin() + 7, expected.begin()), "all_reduce");
  check(group.run(reduce_scatter(from(in), into(part), ReduceOp::average)));
  require(std::equal(part.begin(), part.end(), expected.begin() + rank * kPart), "reduce_scatter");
  check(group.run(batch({all_reduce(from(in), into(out), ReduceOp::average), barrier()})));
  require(out == expected, "in a batch");
}

void average_small_floats(ProcessGroup& group, DataType type) {
  const auto& format = type == DataType::float16 ? reduction::reference::kFloat16 : reduction::reference::kBfloat16;
  constexpr uint64_t kPart = 5;
  const Rank rank = group.rank();
  Bits in(3 * kPart), expected(3 * kPart), out(3 * kPart), part(kPart);
  for (uint64_t i = 0; i < in.size(); ++i) {
    const auto given = [i](Rank r) { return static_cast<double>(i * (r + 1)) - 20.0 * r; };
    in[i] = static_cast<uint16_t>(encode(format, given(rank)));
    expected[i] = static_cast<uint16_t>(encode(format, static_cast<float>((given(0) + given(1) + given(2)) / 3)));
  }
  const auto buffer = [type](Bits& bits, uint64_t count) { return Buffer(bits.data(), type, count); };
  check(group.run(all_reduce(from(buffer(in, 7)), into(buffer(out, 7)), ReduceOp::average)));
  require(std::equal(out.begin(), out.begin() + 7, expected.begin()), "all_reduce");
  check(group.run(reduce_scatter(from(buffer(in, 15)), into(buffer(part, 5)), ReduceOp::average)));
  require(std::equal(part.begin(), part.end(), expected.begin() + rank * kPart), "reduce_scatter");
}

TEST(FieldReductions, Averages) {
  on_every_wire(3, [](ProcessGroup& group) {
    average_integers<int32_t>(group);
    average_integers<int64_t>(group);
    average_small_floats(group, DataType::float16);
    average_small_floats(group, DataType::bfloat16);
  });
}

// The same kind: what a reduce leaves in the buffers of those who get no result.
TEST(FieldReductions, OnlyTheRootIsWritten) {
  on_every_wire(3, [](ProcessGroup& group) {
    for (const uint64_t count : {1, 7, 5000, 70000}) {
      std::vector<float> given(count, static_cast<float>(group.rank() * 3)), x = given, out(count, -1.0f);
      check(group.run(reduce(in_place(x), ReduceOp::average, 1)));
      require(x == (group.rank() == 1 ? std::vector<float>(count, 3.0f) : given), "in place");
      check(group.run(reduce(from(given), into(out), ReduceOp::average, 2)));
      require(out == std::vector<float>(count, group.rank() == 2 ? 3.0f : -1.0f), "with an output everywhere");
      check(group.run(group.rank() == 0 ? reduce(from(given), into(out), ReduceOp::sum, 0)
                                        : reduce(from(given), ReduceOp::sum, 0)));
    }
  });
}

// Kind: a type and an operator that do not go together end the group, or give rubbish (pytorch 35671, 111131). Each of
// the table works or is unsupported, as the capabilities say; then the group still works.
TEST(FieldReductions, TheTableOfTypesAndOperators) {
  const Capabilities known = capabilities();
  std::map<std::pair<DataType, ReduceOp::Kind>, Support> table;
  for (const auto& row : known.table) {
    if (row.backend == "native" && row.collective == Collective::all_reduce) table[{row.type, row.op}] = row.support;
  }
  ASSERT_EQ(table.size(), static_cast<size_t>(kDataTypes * kReduceOps));
  on_every_wire(2, [&](ProcessGroup& group) {
    std::vector<std::byte> memory(16 * 4);
    for (const auto& [pair, support] : table) {
      const Buffer buffer(memory.data(), pair.first, 4);
      const ReduceOp op{pair.second, pair.second == ReduceOp::Kind::premultiplied_sum ? 0.5 : 1.0};
      const std::string what = std::string(name(pair.first)) + " " + std::string(name(pair.second));
      for (const Operation& operation :
           {all_reduce(in_place(buffer), op), reduce(in_place(buffer), op, 1), reduce_scatter(in_place(buffer), op),
            batch({barrier(), all_reduce(in_place(buffer), op)})}) {
        const Status status = group.run(operation);
        const StatusCode code = support == Support::unsupported ? StatusCode::unsupported : StatusCode::ok;
        require(status.code() == code, what + ": " + status.to_string());
        if (!status.ok()) {
          require(status.message().find(name(pair.first)) != std::string::npos &&
                      status.message().find(name(pair.second)) != std::string::npos,
                  "names not both: " + status.message());
        }
      }
    }
    int32_t one[] = {1};
    check(group.run(all_reduce(in_place(one))));
    require(one[0] == 2, "the sum after it");
  });
}

// Sums whose value depends on the order, different at every element; every rank's result, for comparison.
constexpr float kTerms[] = {1e8f, 1.0f, -1e8f, 1.0f, 3.0f, -1e-3f, 7.0f};

struct Results {
  std::mutex mutex;
  std::map<std::pair<uint64_t, std::string>, std::vector<float>> first;  // by elements and what must be equal

  // Throws if it differs in a bit from what was kept first under that name.
  void same(uint64_t count, const std::string& under, const std::vector<float>& result) {
    std::lock_guard lock(mutex);
    const auto& kept = first.try_emplace({count, under}, result).first->second;
    require(std::memcmp(kept.data(), result.data(), count * sizeof(float)) == 0,
            "other bits than another rank or run: " + under + ", " + std::to_string(count) + " elements");
  }
};

void fill(Rank rank, std::vector<float>* x) {
  for (uint64_t i = 0; i < x->size(); ++i) (*x)[i] = kTerms[(rank + i) % std::size(kTerms)];
}

// The numbers of elements on both sides of every size at which another algorithm is chosen.
const std::vector<uint64_t>& switching_counts() {
  static const std::vector<uint64_t> counts = [] {
    std::vector<uint64_t> made = {1, 2, 7};
    for (const uint64_t bytes : {4 << 10, 16 << 10, 64 << 10, 1 << 20}) {
      made.push_back(bytes / sizeof(float));
      made.push_back(bytes / sizeof(float) + 1);
    }
    return made;
  }();
  return counts;
}

// Kind: ranks that get different sums (ompi 12258): bit-identical on all ranks and from run to run.
TEST(FieldReductions, TheSameSumOnAllRanksAndInEveryRun) {
  for (const Rank size : {4, 5, 7}) {
    for (const Wire& wire : kWires) {
      Results results;
      on_wires({&wire, 1}, size, [&](ProcessGroup& group) {
        for (const uint64_t count : switching_counts()) {
          std::vector<float> in(count), out(count);
          fill(group.rank(), &in);
          for (int run = 0; run < 2; ++run) {
            check(group.run(all_reduce(from(in), into(out))));
            results.same(count, "any", out);
          }
          check(group.run(all_reduce(in_place(in))));
          results.same(count, "any", in);
        }
      });
    }
  }
}

// The same kind: asked to be reproducible, all algorithms and wires give the fold in rank order, bit by bit.
TEST(FieldReductions, ReproducibleSumsAreTheSameByAnyWay) {
  for (const Rank size : {4, 6}) {
    for (const Wire& wire : kWires) {
      std::mutex mutex;
      std::map<std::string, int> served;
      on_wires({&wire, 1}, size, [&](ProcessGroup& group) {
        for (const uint64_t count : {uint64_t{1}, uint64_t{7}, uint64_t{1025}, uint64_t{16385}, uint64_t{262145}}) {
          std::vector<float> in(count), expected(count), other(count);
          fill(0, &expected);
          for (Rank r = 1; r < size; ++r) {
            fill(r, &other);
            for (uint64_t i = 0; i < count; ++i) expected[i] += other[i];
          }
          fill(group.rank(), &in);
          std::vector<std::string> ways = {""};
          for (const algorithms::Algorithm& algorithm : algorithms::catalogue()) {
            if (algorithm.collective == Collective::all_reduce) ways.emplace_back(algorithm.name);
          }
          for (const std::string& way : ways) {
            std::vector<float> out(count);
            CallOptions options;
            options.reproducible = true;
            options.algorithm = way;
            const Status status = group.run(all_reduce(from(in), into(out), ReduceOp::sum, options));
            const bool refused =
                status.code() == StatusCode::unsupported || status.code() == StatusCode::invalid_argument;
            if (refused && !way.empty()) continue;
            check(status);
            require(std::memcmp(out.data(), expected.data(), count * sizeof(float)) == 0, "not in rank order: " + way);
            std::lock_guard lock(mutex);
            ++served[way];
          }
        }
      });
      EXPECT_GE(served.size(), 2u) << wire.name << ": no algorithm served by name";
    }
  }
}

// The same kind: a NaN is passed on by minimum and maximum, from any rank, at any place, by any algorithm.
TEST(FieldReductions, ANanIsSeenByAll) {
  on_every_wire(5, [](ProcessGroup& group) {
    for (const uint64_t count : {1, 5, 1025, 16385, 65537}) {
      for (const ReduceOp op : {ReduceOp::minimum, ReduceOp::maximum}) {
        std::vector<float> x(count, static_cast<float>(group.rank()));
        for (uint64_t i = group.rank(); i < count; i += 7) x[i] = -std::numeric_limits<float>::quiet_NaN();
        check(group.run(all_reduce(in_place(x), op)));
        const float best = op == ReduceOp::minimum ? 0.0f : 4.0f;
        for (uint64_t i = 0; i < count; ++i) {
          uint32_t bits;
          std::memcpy(&bits, &x[i], sizeof bits);
          require(i % 7 < 5 ? bits == 0x7fc00000 : x[i] == best, "element " + std::to_string(i));
        }
      }
    }
  });
}

}  // namespace
}  // namespace regroup
