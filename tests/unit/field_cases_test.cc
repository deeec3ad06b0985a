// SPDX-License-Identifier: Apache-2.0
// Faults that users of collective libraries have met, tried on this one: odd layouts, empty and uneven parts, memory
// that overlaps, many buffers at once. References are to public issues of other projects.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "unit/wires.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;

bool refused(const Status& status) { return status.code() == StatusCode::invalid_argument; }

void require_refused(const Status& status, const std::string& what) {
  require(refused(status) && !status.message().empty(), what + " gave " + status.to_string());
}

// A value that occurs once in all ranks' matrices.
int32_t cell(Rank rank, uint64_t row, uint64_t column) {
  return static_cast<int32_t>(rank * 100000 + row * 100 + column);
}

// A matrix of `rows` × `columns`, and its rows as pieces.
struct Matrix {
  uint64_t rows, columns;
  std::vector<int32_t> cells;
  Matrix(uint64_t rows_, uint64_t columns_) : rows(rows_), columns(columns_), cells(rows_ * columns_, -1) {}
  int32_t* row(uint64_t r) { return cells.data() + r * columns; }
  std::span<int32_t> piece(uint64_t r, uint64_t first, uint64_t count) { return {row(r) + first, count}; }
};

// Kind: memory that is not one run of bytes (pytorch 192920, 24836, 74809). Here pieces of a matrix, taken backwards,
// every second row, and columns of different rows; distinct values, since equal ones would hide a wrong order.
TEST(FieldCases, PiecesOfAMatrixInAnyOrder) {
  on_every_wire(2, [](ProcessGroup& group) {
    const Rank rank = group.rank();
    for (const uint64_t columns : {3, 9000}) {
      Matrix in(4, columns), out(4, columns);
      for (uint64_t r = 0; r < 4; ++r) {
        for (uint64_t c = 0; c < columns; ++c) in.row(r)[c] = cell(rank, r, c);
      }
      // Rows 3 and 1 go out, into the middle of rows 2 and 0: backwards on both sides.
      const uint64_t part = columns - 2;
      std::vector<std::span<int32_t>> gives = {in.piece(3, 1, part), in.piece(1, 1, part)};
      std::vector<std::span<int32_t>> takes = {out.piece(2, 1, part), out.piece(0, 1, part)};
      const auto clear = [&out] { std::fill(out.cells.begin(), out.cells.end(), -1); };
      const auto took = [&](Rank peer, uint64_t row_given, const char* what) {
        for (uint64_t c = 0; c < part; ++c)
          require(takes[peer][c] == cell(peer, row_given, c + 1), std::string(what) + ": wrong element");
      };
      const auto around = [&](const char* what) {
        for (uint64_t r = 0; r < 4; ++r) {
          const bool holes = r == 1 || r == 3;
          for (uint64_t c = 0; c < columns; c += holes ? 1 : columns - 1)
            require(out.row(r)[c] == -1, std::string(what) + " wrote beside the pieces");
        }
      };

      check(group.run(all_to_all(from(gives), into(takes))));
      for (Rank peer = 0; peer < 2; ++peer) took(peer, rank == 0 ? 3 : 1, "all_to_all");
      around("all_to_all");

      clear();
      check(group.run(all_gather(from(gives[0]), into(takes))));
      for (Rank peer = 0; peer < 2; ++peer) took(peer, 3, "all_gather");
      around("all_gather");

      clear();
      check(group.run(rank == 1 ? gather(from(gives[1]), into(takes), 1) : gather(from(gives[1]), 1)));
      if (rank == 1) {
        for (Rank peer = 0; peer < 2; ++peer) took(peer, 1, "gather");
      }
      around("gather");

      std::vector<int32_t> one(part);
      check(group.run(rank == 0 ? scatter(from(gives), into(one), 0) : scatter(into(one), 0)));
      for (uint64_t c = 0; c < part; ++c) require(one[c] == cell(0, rank == 0 ? 3 : 1, c + 1), "scatter");

      check(group.run(reduce_scatter(from(gives), into(one))));
      for (uint64_t c = 0; c < part; ++c) {
        const uint64_t r = rank == 0 ? 3 : 1;
        require(one[c] == cell(0, r, c + 1) + cell(1, r, c + 1), "reduce_scatter");
      }
    }
  });
}

// The same kind: what "expands" one piece may be read many times, but never written; and a list where one buffer
// belongs is refused, by every rank, before anything is sent.
TEST(FieldCases, ExpandedPiecesAndMisplacedListsAreRefused) {
  on_every_wire(2, [](ProcessGroup& group) {
    std::vector<float> x = {1, 2, 3}, y(6), z(3);
    const std::vector<Buffer> twice = {Buffer(x), Buffer(x)};
    check(group.run(all_to_all(from(twice), into(y))));
    require(y == std::vector<float>{1, 2, 3, 1, 2, 3}, "the same piece to everyone");
    const std::vector<Buffer> apart = {Buffer(x), Buffer(z)};
    require_refused(group.run(all_to_all(from(y), into(twice))), "an expanded output");
    require_refused(group.run(all_gather(from(z), into(twice))), "an expanded output");
    require_refused(group.run(all_to_all(in_place(twice))), "an expanded buffer");
    require_refused(group.run(reduce_scatter(in_place(twice))), "an expanded buffer");
    for (const Operation& listed :
         {all_reduce(in_place(apart)), all_reduce(from(apart), into(y)), all_reduce(from(y), into(apart)),
          broadcast(in_place(apart), 0), reduce(in_place(apart), ReduceOp::sum, 0), send(from(apart), 0),
          receive(into(apart), 0), all_gather(from(apart), into(y)), reduce_scatter(from(y), into(apart))}) {
      require_refused(group.run(listed), std::string(name(listed.collective)) + " of a list");
    }
    check(group.run(all_reduce(in_place(z))));
  });
}

// Kind: nothing at all to move (pytorch 85234): null memory, every collective and type; then all are still in step.
TEST(FieldCases, NothingToMove) {
  for (const Rank size : {1, 2, 4}) {
    on_every_wire(size, [](ProcessGroup& group) {
      for (int type = 0; type < kDataTypes; ++type) {
        const Buffer none(nullptr, static_cast<DataType>(type), 0);
        const std::vector<Buffer> nones(group.size(), none);
        const Rank root = group.size() - 1;
        const bool at_root = group.rank() == root;
        const auto op = static_cast<DataType>(type) == DataType::boolean ? ReduceOp::maximum : ReduceOp::sum;
        for (const Operation& operation :
             {barrier(), broadcast(in_place(none), root), all_reduce(from(none), into(none), op),
              reduce(in_place(none), op, root), all_gather(from(none), into(nones)),
              at_root ? gather(from(none), into(nones), root) : gather(from(none), root),
              at_root ? scatter(from(nones), into(none), root) : scatter(into(none), root),
              reduce_scatter(from(none), into(none), op), all_to_all(from(nones), into(nones)),
              all_to_all(in_place(none)),
              batch({send(from(none), (group.rank() + 1) % group.size()),
                     receive(into(none), (group.rank() + root) % group.size())})}) {
          if (const Status status = group.run(operation); !status.ok())
            throw Error(Status(status.code(), std::string(name(none.type)) + ": " + status.message()));
        }
      }
      std::vector<int32_t> in = {1 + static_cast<int32_t>(group.rank())};
      check(group.run(all_reduce(in_place(in))));
      require(in[0] == static_cast<int32_t>(group.size() * (group.size() + 1) / 2), "the sum after it");
    });
  }
}

using Table = std::array<std::array<uint64_t, 4>, 4>;  // [giver][taker] → elements

void exchange(ProcessGroup& group, const Table& table, uint64_t scale, bool listed) {
  const Rank rank = group.rank();
  Counts gives(4), takes(4);
  for (Rank peer = 0; peer < 4; ++peer) {
    gives[peer] = table[rank][peer] * scale;
    takes[peer] = table[peer][rank] * scale;
  }
  std::vector<int64_t> in(std::accumulate(gives.begin(), gives.end(), uint64_t{0}));
  std::vector<int64_t> out(std::accumulate(takes.begin(), takes.end(), uint64_t{0}), -1);
  std::vector<std::span<int64_t>> inputs, outputs;
  int64_t *give = in.data(), *take = out.data();
  for (Rank peer = 0; peer < 4; ++peer) {
    inputs.emplace_back(give, gives[peer]);
    outputs.emplace_back(take, takes[peer]);
    std::iota(give, give + gives[peer], rank * 10000000 + peer * 1000000);
    give += gives[peer];
    take += takes[peer];
  }
  check(group.run(listed ? all_to_all(from(inputs), into(outputs)) : all_to_all(from(in), into(out), gives, takes)));
  for (Rank peer = 0; peer < 4; ++peer) {
    for (uint64_t i = 0; i < takes[peer]; ++i)
      require(outputs[peer][i] == static_cast<int64_t>(peer * 10000000 + rank * 1000000 + i), "wrong element");
  }
}

// Kind: uneven exchanges between two hosts of two ranks (oneCCL 190, 174): a rank that gives nothing, one that takes
// nothing, nothing kept, one that gives all; as lists and by counts.
TEST(FieldCases, UnevenExchanges) {
  constexpr Table kTables[] = {
      {{{1, 2, 3, 4}, {0, 0, 0, 0}, {5, 1, 0, 2}, {0, 3, 1, 1}}},  // rank 1 gives nothing
      {{{1, 2, 0, 4}, {2, 1, 0, 3}, {4, 1, 0, 0}, {1, 3, 0, 7}}},  // rank 2 takes nothing
      {{{0, 2, 3, 4}, {2, 0, 1, 3}, {4, 1, 0, 5}, {1, 3, 2, 0}}},  // nothing kept
      {{{0, 0, 0, 0}, {0, 0, 0, 0}, {3, 5, 1, 2}, {0, 0, 0, 0}}},  // rank 2 gives all
      {{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}},  // nobody gives anything
      {{{0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 0, 0, 0}}},  // a ring
  };
  on_every_wire(4, [&](ProcessGroup& group) {
    for (const Table& table : kTables) {
      for (const uint64_t scale : {1, 20000}) {
        exchange(group, table, scale, true);
        exchange(group, table, scale, false);
      }
    }
  });
}

// The same kind: counts that cannot be right are refused here and now, by what is known here.
TEST(FieldCases, ImpossibleCountsAreRefused) {
  on_every_wire(4, [](ProcessGroup& group) {
    std::vector<int32_t> in(8), out(8);
    const Counts twos(4, 2);
    const auto tried = [&](const Counts& gives, const Counts& takes) {
      return group.run(all_to_all(from(in), into(out), gives, takes));
    };
    require_refused(tried({2, 2, 2, static_cast<uint64_t>(-2)}, twos), "a negative count");
    require_refused(tried(twos, {static_cast<uint64_t>(-1), 3, 3, 3}), "a negative count");
    require_refused(tried({2, 2, 2, 1}, twos), "counts of too little");
    require_refused(tried({2, 2, 2, 3}, twos), "counts of too much");
    require_refused(tried({1, 1, 1, 5}, {2, 2, 2, 2}), "own parts that differ");
    require_refused(tried(twos, {}), "counts on one side only");
    require_refused(tried({}, twos), "counts on one side only");
    require_refused(tried({4, 4}, twos), "too few counts");
    require_refused(group.run(all_to_all(from(in.data(), 7), into(out.data(), 7))), "7 elements for 4");
    require_refused(group.run(reduce_scatter(from(in.data(), 6), into(out.data(), 1))), "6 elements for 4");
    require_refused(group.run(all_gather(from(in.data(), 1), into(out.data(), 5))), "5 elements of 4");
    check(tried(twos, twos));
  });
}

// Kind: many buffers of many types at once (pytorch 35671, 89197, 111131).
TEST(FieldCases, BuffersOfManyTypesAtOnce) {
  on_every_wire(3, [](ProcessGroup& group) {
    for (const uint64_t count : {1, 7, 30000}) {
      std::vector<float> f(count);
      std::vector<int64_t> n(2 * count + 1);
      std::vector<uint16_t> b(count, group.rank() == 0 ? 0x3f80 : 0xc000);  // bfloat16: 1 − 2 − 2
      std::vector<uint8_t> t(count, group.rank() == 1);
      std::iota(f.begin(), f.end(), static_cast<float>(group.rank()));
      std::iota(n.begin(), n.end(), -5 - static_cast<int64_t>(group.rank()));
      const Buffer bfloat(b.data(), DataType::bfloat16, count), half(nullptr, DataType::float16, 0);
      const Buffer truth(t.data(), DataType::boolean, count);
      check(group.run(batch({all_reduce(in_place(f)), all_reduce(in_place(bfloat)), all_reduce(in_place(n)),
                             all_reduce(in_place(half)), all_reduce(in_place(truth), ReduceOp::maximum)})));
      for (uint64_t i = 0; i < count; ++i) {
        require(f[i] == static_cast<float>(3 * i + 3), "float32");
        require(n[i] == 3 * static_cast<int64_t>(i) - 18, "int64");
        require(b[i] == 0xc040, "bfloat16");
        require(t[i] == 1, "boolean");
      }
    }
    check(group.run(batch({})));
    check(group.start(batch({})).wait());
  });
}

// The same kind: two thousand tiny buffers, each with its own result.
TEST(FieldCases, TwoThousandTinyBuffers) {
  on_every_wire(3, [](ProcessGroup& group) {
    std::vector<std::vector<int32_t>> tiny(2000);
    std::vector<Operation> sums;
    for (size_t i = 0; i < tiny.size(); ++i) {
      tiny[i].assign(i % 4, static_cast<int32_t>(i * (group.rank() + 1)));
      sums.push_back(all_reduce(in_place(tiny[i])));
    }
    check(group.run(batch(std::move(sums))));
    for (size_t i = 0; i < tiny.size(); ++i)
      require(tiny[i] == std::vector<int32_t>(i % 4, static_cast<int32_t>(6 * i)), "buffer " + std::to_string(i));
  });
}

// Kind: one memory given twice (Aluminum 22, oneCCL 45). In place has a form of its own; whatever else shares bytes
// with what is written is refused, also between the entries of lists and the members of a batch.
TEST(FieldCases, OverlapsAreRefused) {
  on_every_wire(2, [](ProcessGroup& group) {
    std::vector<int32_t> memory(16, 1), other(16);
    const auto at = [&](uint64_t first, uint64_t count) {
      return Buffer(memory.data() + first, DataType::int32, count);
    };
    const auto pair = [](Buffer a, Buffer b) { return std::vector<Buffer>{a, b}; };
    const Buffer beside(other.data(), DataType::int32, 4), behind(other.data() + 4, DataType::int32, 4);
    for (const auto& [what, operation] : std::vector<std::pair<const char*, Operation>>{
             {"the same buffer", all_reduce(from(at(0, 4)), into(at(0, 4)))},
             {"one element shared", all_reduce(from(at(0, 4)), into(at(3, 4)))},
             {"the output first", all_reduce(from(at(3, 4)), into(at(0, 4)))},
             {"the own part as input", all_gather(from(at(0, 4)), into(at(0, 8)))},
             {"the own part as output", reduce_scatter(from(at(0, 8)), into(at(4, 4)))},
             {"outputs of a list", all_to_all(from(pair(beside, behind)), into(pair(at(0, 4), at(3, 4))))},
             {"entry 0 read, entry 1 written", all_to_all(from(pair(at(0, 4), beside)), into(pair(behind, at(2, 4))))},
             {"entry 1 inside entry 0", all_to_all(in_place(pair(at(0, 8), at(2, 2))))},
             {"members that write the same", batch({all_reduce(in_place(at(0, 4))), all_reduce(in_place(at(2, 4)))})},
             {"a member that reads what another writes",
              batch({all_reduce(in_place(at(0, 4))), all_gather(from(at(3, 2)), into(beside))})},
             {"a send of what is being received",
              batch({send(from(at(0, 4)), 1 - group.rank()), receive(into(at(2, 4)), 1 - group.rank())})}}) {
      require_refused(group.run(operation), what);
    }
    // Neighbours, nothing inside something, and one memory read twice are fine.
    check(group.run(all_reduce(from(at(0, 4)), into(at(4, 4)))));
    check(group.run(all_to_all(from(pair(at(0, 2), at(0, 2))), into(pair(at(2, 2), at(4, 2))))));
    if (group.rank() == 0) {
      check(group.run(all_to_all(from(pair(beside, at(0, 0))), into(pair(at(0, 4), at(2, 0))))));
    } else {
      check(group.run(all_to_all(from(pair(at(0, 0), beside)), into(pair(at(2, 0), at(0, 4))))));
    }
    check(
        group.run(batch({send(from(at(0, 4)), 1 - group.rank(), 1), send(from(at(0, 4)), 1 - group.rank(), 2),
                         receive(into(at(4, 4)), 1 - group.rank(), 1), receive(into(at(8, 4)), 1 - group.rank(), 2)})));
  });
}

// Kind: an exchange whose shards are of any size, grid ↔ heads, and its reverse with the lists' roles swapped
// (anemoi-core 95, 1299). Rank r holds shards[r] rows of all heads, then all rows of its heads.
TEST(FieldCases, ShardedGridToHeadsAndBack) {
  constexpr uint64_t kChannels = 3;
  const std::vector<Counts> grids = {{128, 384, 256, 512}, {0, 1, 1023, 0}}, head_splits = {{2, 2, 2, 2}, {2, 1, 1, 1}};
  on_every_wire(4, [&](ProcessGroup& group) {
    const Rank rank = group.rank();
    for (const Counts& grid : grids) {
      for (const Counts& heads : head_splits) {
        std::vector<std::vector<float>> by_head(4), by_row(4), back(4);
        uint64_t row0 = 0;
        for (Rank r = 0; r < rank; ++r) row0 += grid[r];
        uint64_t head0 = 0;
        const auto value = [](uint64_t head, uint64_t row, uint64_t channel) {
          return static_cast<float>((head * 2000 + row) * kChannels + channel);
        };
        for (Rank peer = 0; peer < 4; head0 += heads[peer++]) {
          for (uint64_t h = head0; h < head0 + heads[peer]; ++h) {
            for (uint64_t g = row0; g < row0 + grid[rank]; ++g) {
              for (uint64_t c = 0; c < kChannels; ++c) by_head[peer].push_back(value(h, g, c));
            }
          }
          by_row[peer].resize(grid[peer] * heads[rank] * kChannels);
          back[peer].resize(by_head[peer].size());
        }
        check(group.run(all_to_all(from(by_head), into(by_row))));
        head0 = std::accumulate(heads.begin(), heads.begin() + rank, uint64_t{0});
        uint64_t row = 0;
        for (Rank peer = 0; peer < 4; row += grid[peer++]) {
          for (uint64_t i = 0; i < by_row[peer].size(); ++i) {
            const uint64_t of_head = grid[peer] * kChannels, in_head = i % of_head;
            require(by_row[peer][i] == value(head0 + i / of_head, row + in_head / kChannels, in_head % kChannels),
                    "grid to heads");
          }
        }
        check(group.run(all_to_all(from(by_row), into(back))));
        require(back == by_head, "heads to grid");
      }
    }
  });
}

}  // namespace
}  // namespace regroup
