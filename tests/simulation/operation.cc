// SPDX-License-Identifier: Apache-2.0
#include "simulation/operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "reduce/reduce.h"
#include "simulation/elements.h"
#include "verify/layout.h"

namespace regroup::simulation {

using plan::Problem;
using plan::Space;
using transport::Segment;
using transport::SpaceMemory;
using verify::BatchMember;

namespace {

constexpr uint64_t kMargin = 64;  // bytes of garbage around a rank's memory
constexpr std::byte kPoison{0x5c};
constexpr uint64_t kAlign = 64;

uint64_t aligned(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

uint64_t elements_of(const Problem& problem) {
  const auto sum = [](const std::vector<uint64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  };
  return std::max({problem.count, sum(problem.counts), sum(problem.receive_counts)});
}

Member draw_member(const BatchMember& call, std::mt19937_64& random) {
  constexpr DataType kTypes[] = {DataType::int64, DataType::float32, DataType::uint8};
  constexpr ReduceOp::Kind kOps[] = {ReduceOp::Kind::sum, ReduceOp::Kind::maximum, ReduceOp::Kind::average};
  Member member{.call = call, .type = kTypes[random() % 3], .salt = random()};
  if (!reduces(call.algorithm->collective)) return member;
  do {
    member.op = kOps[random() % 3];
  } while (!call.algorithm->single_fold && !reduction::partial_results_allowed(member.type, member.op));
  member.rough = member.type == DataType::float32 && member.op == ReduceOp::Kind::sum && random() % 2 == 0;
  return member;
}

}  // namespace

Operation make_operation(std::span<const BatchMember> calls, std::vector<plan::Schedule> schedules,
                         std::mt19937_64& random) {
  Operation operation;
  for (const BatchMember& call : calls) operation.members.push_back(draw_member(call, random));
  operation.eager = schedules.empty();
  operation.agreed.resize(calls.size());
  const Member& first = operation.members[0];
  operation.signature.collective = calls.size() > 1 ? Collective::batch : first.call.algorithm->collective;
  operation.signature.type = first.type;
  operation.signature.op = first.op;
  operation.signature.root = first.call.test_case.problems[0].root;
  operation.signature.options_hash = first.salt;
  for (plan::Schedule& schedule : schedules) {
    operation.programs.push_back(std::make_unique<executor::Program>(std::move(schedule)));
  }
  return operation;
}

void show_pairs(Operation& operation, std::mt19937_64& random) {
  const Member& member = operation.members[0];
  const auto& problems = member.call.test_case.problems;
  const auto& counts = problems[random() % problems.size()].counts;
  const uint64_t one_gives = std::accumulate(counts.begin(), counts.end(), uint64_t{0}) * size_of(member.type);
  operation.shown_bytes = random() % 3 == 0 ? ~uint64_t{0} : one_gives;
}

Operation make_operation(const BatchMember& call, std::mt19937_64& random) {
  return make_operation({&call, 1}, verify::plan_all(*call.algorithm, call.test_case), random);
}

std::string describe(const Operation& operation) {
  std::string text = operation.eager ? "eager" : operation.members.size() > 1 ? "batch" : "";
  if (operation.shown_bytes.has_value()) text = "shown up to " + std::to_string(*operation.shown_bytes) + " bytes";
  for (const Member& member : operation.members) {
    text += std::string(text.empty() ? "" : " · ") + std::string(name(member.call.algorithm->collective)) + " " +
            std::string(member.call.algorithm->name) + " of " + std::string(name(member.type)) + " by " +
            std::string(name(member.op)) + (member.rough ? ", rounding" : "") +
            (member.call.in_place ? ", in place, " : ", ") + member.call.test_case.text;
  }
  return text;
}

bool runnable(const BatchMember& call) {
  const auto& problems = call.test_case.problems;
  return std::all_of(problems.begin(), problems.end(), [](const Problem& p) { return elements_of(p) <= 100'000; });
}

bool eager_by_pair(const BatchMember& call) {
  const Problem& problem = call.test_case.problems[0];
  return problem.collective == Collective::all_to_all && !problem.equal_counts;
}

bool eager_possible(const BatchMember& call, uint64_t most_bytes) {
  for (const Problem& problem : call.test_case.problems) {
    const Collective collective = problem.collective;
    if (collective == Collective::all_to_all && !problem.equal_counts) return false;
    if ((collective == Collective::gather || collective == Collective::scatter) && !problem.counts_known) return false;
    if (elements_of(problem) * sizeof(int64_t) > most_bytes) return false;
  }
  return true;
}

RankMemory::RankMemory(Operation& operation, Rank rank, std::mt19937_64& random)
    : operation_(operation), rank_(rank), areas_(operation.members.size()), bindings_(areas_.size()) {
  for (size_t i = 0; i < areas_.size(); ++i) {
    const Member& member = operation.members[i];
    const uint64_t width = size_of(member.type);
    uint64_t next = kMargin / width;
    const auto layout = verify::lay_out(member.call.test_case.problems[rank], 0, member.call.in_place, &next);
    Area& area = areas_[i];
    area.bytes.assign(next * width + kMargin, kPoison);
    const auto pieces_of = [&](Space space) {
      std::vector<Piece> pieces;
      for (uint32_t part = 0; part < layout[space].parts(); ++part) {
        pieces.push_back({layout[space].base(part) * width, layout[space].count(part) * width});
      }
      return pieces;
    };
    area.input = pieces_of(Space::input);
    area.output = pieces_of(Space::output);
    for (uint32_t part = 0; part < area.input.size(); ++part) {
      contribute(member, rank, part, area.input[part].bytes / width, area.bytes.data() + area.input[part].at);
    }
    area.input_before = inputs_of(area);
    executor::Binding& binding = bindings_[i];
    binding.memory.element_bytes = static_cast<uint32_t>(width);
    binding.memory.spaces[0] = describe_space(area, area.input, 0, random);
    binding.memory.spaces[1] = describe_space(area, area.output, 1, random);
    if (reduces(member.call.algorithm->collective)) {
      binding.folding.fold = reduction::find_fold(member.type, member.op);
      binding.folding.options.divisor = member.op == ReduceOp::Kind::average ? operation.size() : 0;
      binding.folding.element_bytes = static_cast<uint32_t>(width);
    }
  }
}

SpaceMemory RankMemory::describe_space(Area& area, const std::vector<Piece>& parts, size_t space,
                                       std::mt19937_64& random) {
  if (parts.empty()) return {};
  bool contiguous = true;
  for (size_t part = 1; part < parts.size(); ++part) {
    contiguous &= parts[part].at == parts[part - 1].at + parts[part - 1].bytes && parts[part].bytes == parts[0].bytes;
  }
  const auto count = static_cast<uint32_t>(parts.size());
  if (contiguous && random() % 2 == 0) return {area.bytes.data() + parts[0].at, parts[0].bytes, nullptr, count};
  for (const Piece& piece : parts) area.lists[space].push_back({area.bytes.data() + piece.at, piece.bytes});
  return {nullptr, 0, area.lists[space].data(), count};
}

std::vector<std::byte> RankMemory::inputs_of(const Area& area) const {
  std::vector<std::byte> all;
  for (const Piece& piece : area.input) {
    const auto begin = area.bytes.begin() + static_cast<ptrdiff_t>(piece.at);
    all.insert(all.end(), begin, begin + static_cast<ptrdiff_t>(piece.bytes));
  }
  return all;
}

uint64_t RankMemory::scratch_bytes() const {
  if (operation_.eager) return 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < areas_.size(); ++i) {
    const auto& schedule = operation_.programs[rank_]->schedule();
    bytes += aligned(schedule.scratch_count(static_cast<uint16_t>(i)) * size_of(operation_.members[i].type));
  }
  return bytes;
}

void RankMemory::bind(std::byte* scratch) {
  for (size_t i = 0; i < areas_.size() && !operation_.eager; ++i) {
    const auto& schedule = operation_.programs[rank_]->schedule();
    const uint64_t bytes = schedule.scratch_count(static_cast<uint16_t>(i)) * size_of(operation_.members[i].type);
    bindings_[i].memory.spaces[2] = {scratch, bytes, nullptr, 1};
    scratch += aligned(bytes);
  }
  memories_.clear();
  for (const executor::Binding& binding : bindings_) memories_.push_back(binding.memory);
}

executor::EagerCall RankMemory::eager_call() const {
  const Member& member = operation_.members[0];
  const Problem& problem = member.call.test_case.problems[rank_];
  executor::EagerCall call;
  call.collective = problem.collective;
  call.rank = rank_;
  call.size = problem.size;
  call.root = problem.root;
  const bool all_to_all = problem.collective == Collective::all_to_all;
  call.by_pair = operation_.shown_bytes.has_value();
  call.part_bytes = (all_to_all ? problem.counts[0] : problem.count) * size_of(member.type);
  call.may_lend = !member.call.in_place;
  call.part_elements = all_to_all || problem.counts.empty() ? nullptr : problem.counts.data();
  call.binding = bindings_.data();
  return call;
}

bool RankMemory::shows_pairs() const {
  return operation_.shown_bytes.has_value() && bindings_[0].memory.spaces[0].total() <= *operation_.shown_bytes;
}

std::string RankMemory::check_output(size_t index, uint32_t part) const {
  const Member& member = operation_.members[index];
  const Piece& piece = areas_[index].output[part];
  const std::byte* got = areas_[index].bytes.data() + piece.at;
  const uint64_t width = size_of(member.type);
  const auto expected = expected_output(member, rank_, part, piece.bytes / width);
  const bool same_bits = !member.rough || member.call.algorithm->single_fold || operation_.eager;
  for (uint64_t i = 0; i < piece.bytes / width; ++i) {
    if (std::memcmp(got + i * width, expected.data() + i * width, width) == 0) continue;
    if (!same_bits && nearly_equal(got + i * width, expected.data() + i * width)) continue;
    return "member " + std::to_string(index) + ", output part " + std::to_string(part) + ", element " +
           std::to_string(i) + " is " + element_text(member.type, got + i * width) + " and should be " +
           element_text(member.type, expected.data() + i * width);
  }
  if (member.call.algorithm->collective != Collective::all_reduce || piece.bytes == 0) return {};
  std::vector<std::byte>& agreed = operation_.agreed[index];
  if (agreed.empty()) agreed.assign(got, got + piece.bytes);
  if (std::memcmp(got, agreed.data(), piece.bytes) != 0) return "the result differs in bits from another rank's";
  return {};
}

std::string RankMemory::check() const {
  for (size_t i = 0; i < areas_.size(); ++i) {
    const Area& area = areas_[i];
    for (uint32_t part = 0; part < area.output.size(); ++part) {
      if (std::string wrong = check_output(i, part); !wrong.empty()) return wrong;
    }
    if (!operation_.members[i].call.in_place && inputs_of(area) != area.input_before) return "the input was changed";
    const auto untouched = [&](uint64_t at) { return area.bytes[at] == kPoison; };
    const uint64_t width = size_of(operation_.members[i].type);
    for (uint64_t at = 0; at < kMargin / width * width; ++at) {
      if (!untouched(at) || !untouched(area.bytes.size() - 1 - at)) return "memory around the buffers was written";
    }
  }
  return {};
}

void RankMemory::poison() {
  for (Area& area : areas_) std::fill(area.bytes.begin(), area.bytes.end(), kPoison);
}

std::string RankMemory::check_poison() const {
  for (const Area& area : areas_) {
    for (const std::byte byte : area.bytes) {
      if (byte != kPoison) return "its memory was written after it had returned";
    }
  }
  return {};
}

}  // namespace regroup::simulation
