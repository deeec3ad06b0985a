// SPDX-License-Identifier: Apache-2.0
// A case of the conformance suite: a value for each dimension in which calls of a collective can differ. Cases have
// names
// ("all_reduce:float16:sum:shm:…"), so that one can be run again alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/values.h"
#include "regroup/types.h"

namespace regroup::conformance {

enum class Dimension : uint8_t {
  collective,
  type,
  op,
  wire,
  ranks,
  launch,
  size,
  spread,
  placement,
  form,
  memory,
  root,
  call,
  order,
  algorithm,
  values,
  alignment,
};
inline constexpr size_t kDimensions = 17;

// For each dimension the index of its value among `value_names`.
using Row = std::array<uint8_t, kDimensions>;

// What the values are called, in their order.
const std::vector<std::string>& value_names(Dimension dimension);

enum class Wire : uint8_t { shm, shm_without_reads, tcp, two_hosts, three_hosts };
inline constexpr int kWires = 5;
enum class Launch : uint8_t { threads, forked };
// How a total is spread over the parts: equal ones, differing ones, about half of them empty, everything in one.
enum class Spread : uint8_t { equal, uneven, gaps, single };
// `varied`: differs from rank to rank.
enum class Placement : uint8_t { apart, in_place, varied };
enum class Form : uint8_t { equal, counts, list, varied };
enum class Memory : uint8_t { ordinary, allocated, by_rank, by_part };
enum class Root : uint8_t { first, middle, last };
// overlapped: started among others and waited for in another order. batch: one of several members.
enum class Call : uint8_t { run, start, prepared, batch, overlapped };
enum class Alignment : uint8_t { line, element };

// A row made readable. `send` stands for an exchange with both neighbours, `receive_any` for messages of all ranks to
// rank 0.
struct Case {
  Row row{};

  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp::Kind op = ReduceOp::Kind::sum;
  Wire wire = Wire::shm;
  Rank ranks = 1;
  Launch launch = Launch::threads;
  uint8_t size = 0;
  Spread spread = Spread::equal;
  Placement placement = Placement::apart;
  Form form = Form::equal;
  Memory memory = Memory::ordinary;
  Root root = Root::first;
  Call call = Call::run;
  bool reproducible = false;
  uint8_t algorithm = 0;  // 0: the library's choice; k: the k-th that the catalogue has for the collective
  Values values = Values::exact;
  Alignment alignment = Alignment::line;

  // Not among the dimensions; for callers that make cases of their own.
  uint64_t bytes = 0;       // of a rank's larger side; 0: as `size` says
  bool checks_all = false;  // every rank checks all of a result that the ranks could divide among them
};

// Whether a collective has a part for each rank.
constexpr bool has_parts(Collective c) {
  return c == Collective::gather || c == Collective::all_gather || c == Collective::scatter ||
         c == Collective::reduce_scatter || c == Collective::all_to_all;
}

Case case_of(const Row& row);
// The row with every dimension that does not matter to its case, or that its case cannot have, set to the first value.
Row normalized(Row row);

// "all_reduce:float16:sum:…", one value a dimension; and the inverse: nothing for a text that names no case.
std::string id_of(const Row& row);
std::optional<Row> row_of(std::string_view id);

// --- the shape of a case: how many elements each part has.
Rank root_of(const Case& c);
uint32_t host_of(Wire wire, Rank ranks, Rank rank);
// Elements of the vector: broadcast, reduce, all_reduce, send.
uint64_t vector_count(const Case& c);
// Elements of a part where all are equal; of each message: receive_any.
uint64_t equal_part(const Case& c);
// Elements of each rank's part: gather, all_gather, scatter, reduce_scatter.
std::vector<uint64_t> part_counts(const Case& c);
// all_to_all: what rank `from` gives to rank `to`.
uint64_t pair_count(const Case& c, Rank from, Rank to);

// The algorithm's name; empty for the library's choice.
std::string_view algorithm_of(const Case& c);

}  // namespace regroup::conformance
