// SPDX-License-Identifier: Apache-2.0
// One collective call (or batch) of a whole simulated group, and the memory that each rank brings to it: real elements,
// with garbage wherever nothing of worth should be.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "executor/eager.h"
#include "executor/program.h"
#include "transport/signature.h"
#include "verify/cases.h"

namespace regroup::simulation {

struct Member {
  verify::BatchMember call;
  DataType type = DataType::int64;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  bool rough = false;  // float sums that round: equal on all ranks, but in which bits depends on the order
  uint64_t salt = 0;   // its elements are unlike those of any other operation
};

struct Operation {
  std::vector<Member> members;
  bool eager = false;
  // Of one all_to_all whose sizes differ by pair: ranks that give so few bytes show them with their arrival.
  std::optional<uint64_t> shown_bytes;
  transport::Signature signature;
  std::vector<std::unique_ptr<executor::Program>> programs;  // by rank; none where eager
  // Of rough members: the first output that came out, which all ranks must share.
  std::vector<std::vector<std::byte>> agreed;

  Rank size() const { return static_cast<Rank>(members[0].call.test_case.problems.size()); }
};

// Types and operators are drawn. `schedules`: empty for an eager operation.
Operation make_operation(std::span<const verify::BatchMember> calls, std::vector<plan::Schedule> schedules,
                         std::mt19937_64& random);
// Of one algorithm, planned.
Operation make_operation(const verify::BatchMember& call, std::mt19937_64& random);

// Lets all ranks of an all_to_all whose sizes differ by pair show what they give, or only those that give little.
void show_pairs(Operation& operation, std::mt19937_64& random);

std::string describe(const Operation& operation);
// Whether the vectors are short enough to be run rather than reasoned about.
bool runnable(const verify::BatchMember& call);
// Whether an operation can travel with its arrivals.
// Whether ranks may show what they give although they do not know what others give.
bool eager_by_pair(const verify::BatchMember& call);
bool eager_possible(const verify::BatchMember& call, uint64_t most_bytes);

// One rank's input and output in one operation.
class RankMemory {
 public:
  // Draws how each space is described: as one piece or as a list.
  RankMemory(Operation& operation, Rank rank, std::mt19937_64& random);

  uint64_t scratch_bytes() const;
  // `scratch`: at least so many bytes.
  void bind(std::byte* scratch);
  std::span<const executor::Binding> bindings() const { return bindings_; }
  std::span<const transport::MemberMemory> memories() const { return memories_; }
  executor::EagerCall eager_call() const;
  bool shows_pairs() const;

  // Both empty, or what is wrong. After the rank's operation is done: outputs, inputs that must not change, the bytes
  // around them.
  std::string check() const;
  // The caller does with its memory what it likes: all becomes garbage.
  void poison();
  // After `poison`: what was written since.
  std::string check_poison() const;

 private:
  struct Piece {
    uint64_t at = 0, bytes = 0;
  };
  struct Area {
    std::vector<std::byte> bytes;
    std::vector<Piece> input, output;  // by part
    std::vector<transport::Segment> lists[2];
    std::vector<std::byte> input_before;
  };

  transport::SpaceMemory describe_space(Area& area, const std::vector<Piece>& parts, size_t space,
                                        std::mt19937_64& random);
  std::vector<std::byte> inputs_of(const Area& area) const;
  std::string check_output(size_t member, uint32_t part) const;

  Operation& operation_;
  const Rank rank_;
  std::vector<Area> areas_;  // by member
  std::vector<executor::Binding> bindings_;
  std::vector<transport::MemberMemory> memories_;
};

}  // namespace regroup::simulation
