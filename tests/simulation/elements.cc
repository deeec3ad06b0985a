// SPDX-License-Identifier: Apache-2.0
#include "simulation/elements.h"

#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "base/hash.h"
#include "reduce/reduce.h"

namespace regroup::simulation {

namespace {

template <typename T, typename Make>
void write_all(uint64_t seed, uint64_t count, std::byte* to, Make make) {
  for (uint64_t i = 0; i < count; ++i) {
    const T value = make(base::mix(seed, i));
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void contribute(const Member& member, Rank rank, uint32_t part, uint64_t count, std::byte* to) {
  const uint64_t seed = base::mix(member.salt, uint64_t{rank} << 32 | part);
  switch (member.type) {
    case DataType::int64:
      return write_all<int64_t>(seed, count, to, [](uint64_t bits) { return static_cast<int64_t>(bits) >> 8; });
    case DataType::uint8:
      return write_all<uint8_t>(seed, count, to, [](uint64_t bits) { return static_cast<uint8_t>(bits); });
    case DataType::float32:
      // Small whole numbers add up without rounding.
      return write_all<float>(seed, count, to, [&](uint64_t bits) {
        const auto whole = static_cast<float>(static_cast<int64_t>(bits % 2001) - 1000);
        return member.rough ? whole / 7 : whole;
      });
    default:
      REGROUP_ASSERT(false);
  }
}

std::vector<std::byte> expected_output(const Member& member, Rank rank, uint32_t part, uint64_t count) {
  const plan::Problem& problem = member.call.test_case.problems[rank];
  const uint64_t width = size_of(member.type);
  std::vector<std::byte> result(count * width);
  const auto from = [&](Rank source, uint32_t source_part) {
    contribute(member, source, source_part, count, result.data());
    return result;
  };
  switch (problem.collective) {
    case Collective::broadcast:
      return from(problem.root, 0);
    case Collective::scatter:
      return from(problem.root, rank);
    case Collective::gather:
    case Collective::all_gather:
      return from(part, 0);
    case Collective::all_to_all:
      return from(part, rank);
    default:
      break;
  }
  if (count == 0) return result;
  const uint32_t input_part = problem.collective == Collective::reduce_scatter ? rank : 0;
  std::vector<std::vector<std::byte>> inputs(problem.size, std::vector<std::byte>(count * width));
  std::vector<const void*> sources;
  for (Rank source = 0; source < problem.size; ++source) {
    contribute(member, source, input_part, count, inputs[source].data());
    sources.push_back(inputs[source].data());
  }
  reduction::FoldOptions options;
  options.divisor = member.op == ReduceOp::Kind::average ? problem.size : 0;
  reduction::find_fold(member.type, member.op)(result.data(), sources.data(), problem.size, count, options);
  return result;
}

bool nearly_equal(const std::byte* a, const std::byte* b) {
  float x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return std::abs(x - y) < 0.01f;
}

std::string element_text(DataType type, const std::byte* element) {
  if (type == DataType::float32) {
    float value;
    std::memcpy(&value, element, sizeof value);
    return std::to_string(value);
  }
  int64_t value = 0;
  std::memcpy(&value, element, size_of(type));
  return std::to_string(value);
}

}  // namespace regroup::simulation
