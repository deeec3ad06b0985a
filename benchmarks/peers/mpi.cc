// SPDX-License-Identifier: Apache-2.0
// Open MPI and MPICH as contenders: the same source, built against each.
#include <mpi.h>

#include <cstdlib>
#include <cstring>

#include "contest/contender.h"

namespace regroup::contest {

namespace {

MPI_Datatype type_of(DataType type) {
  switch (type) {
    case DataType::boolean:
      return MPI_CXX_BOOL;
    case DataType::int8:
      return MPI_INT8_T;
    case DataType::int16:
      return MPI_INT16_T;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::uint16:
      return MPI_UINT16_T;
    case DataType::uint32:
      return MPI_UINT32_T;
    case DataType::uint64:
      return MPI_UINT64_T;
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::complex64:
      return MPI_CXX_FLOAT_COMPLEX;
    case DataType::complex128:
      return MPI_CXX_DOUBLE_COMPLEX;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Op op_of(ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::sum:
      return MPI_SUM;
    case ReduceOp::Kind::product:
      return MPI_PROD;
    case ReduceOp::Kind::minimum:
      return MPI_MIN;
    case ReduceOp::Kind::maximum:
      return MPI_MAX;
    case ReduceOp::Kind::bit_and:
      return MPI_BAND;
    case ReduceOp::Kind::bit_or:
      return MPI_BOR;
    case ReduceOp::Kind::bit_xor:
      return MPI_BXOR;
    default:
      return MPI_OP_NULL;
  }
}

std::string version_of() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

class Mpi final : public Contender {
 public:
  std::string start(Rank, Rank ranks, std::string* version) override {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    *version = version_of();
    if (static_cast<Rank>(size) != ranks) return "the launcher started a world of " + std::to_string(size) + " ranks";
    return {};
  }

  std::string prepare(const Turn& turn) override {
    turn_ = turn;
    const Task& task = *turn.task;
    type_ = type_of(task.type);
    op_ = op_of(task.op.kind);
    count_ = static_cast<int>(turn.part);
    if (turn.part > 0x7fffffff) return "MPI counts in int";
    if (task.collective == Collective::barrier) return {};
    if (!reduces(task.collective)) {
      // Only bytes move: any type of that size will do.
      if (type_ == MPI_DATATYPE_NULL) type_ = size_of(task.type) == 2 ? MPI_UINT16_T : MPI_UINT8_T;
      return {};
    }
    if (type_ == MPI_DATATYPE_NULL) return "MPI has no " + std::string(name(task.type));
    if (op_ == MPI_OP_NULL) return "MPI has no " + std::string(name(task.op.kind));
    return {};
  }

  std::string call() override { return run() == MPI_SUCCESS ? "" : "an MPI call failed"; }

 private:
  int run() {
    const Task& task = *turn_.task;
    const int root = static_cast<int>(task.root);
    const bool in = task.in_place, at_root = turn_.at_root();
    void* const input = turn_.input;
    void* const output = turn_.output;
    const MPI_Comm world = MPI_COMM_WORLD;
    switch (task.collective) {
      case Collective::barrier:
        return MPI_Barrier(world);
      case Collective::broadcast:
        // MPI's broadcast is in place; elsewhere the root has its own copy to make.
        if (!in && at_root) std::memcpy(output, input, turn_.part_bytes());
        return MPI_Bcast(output, count_, type_, root, world);
      case Collective::all_reduce:
        return MPI_Allreduce(in ? MPI_IN_PLACE : input, output, count_, type_, op_, world);
      case Collective::reduce:
        return MPI_Reduce(in && at_root ? MPI_IN_PLACE : input, output, count_, type_, op_, root, world);
      case Collective::gather:
        if (in && at_root) return MPI_Gather(MPI_IN_PLACE, 0, type_, output, count_, type_, root, world);
        return MPI_Gather(in ? own_part(input) : input, count_, type_, output, count_, type_, root, world);
      case Collective::all_gather:
        return MPI_Allgather(in ? MPI_IN_PLACE : input, count_, type_, output, count_, type_, world);
      case Collective::scatter:
        return MPI_Scatter(input, count_, type_, in && at_root ? MPI_IN_PLACE : output, count_, type_, root, world);
      case Collective::reduce_scatter:
        if (!in) return MPI_Reduce_scatter_block(input, output, count_, type_, op_, world);
        // MPI puts the result first; regroup's in-place form has it where the rank's part was.
        if (const int error = MPI_Reduce_scatter_block(MPI_IN_PLACE, output, count_, type_, op_, world)) return error;
        std::memmove(own_part(output), output, turn_.part_bytes());
        return MPI_SUCCESS;
      default:
        return MPI_Alltoall(in ? MPI_IN_PLACE : input, count_, type_, output, count_, type_, world);
    }
  }
  std::byte* own_part(void* parts) const { return static_cast<std::byte*>(parts) + turn_.rank * turn_.part_bytes(); }

  Turn turn_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
  int count_ = 0;
};

// As the launcher tells it, so that the process is pinned before MPI looks at where it runs.
Rank rank_in_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* text = std::getenv(name)) return static_cast<Rank>(std::strtoul(text, nullptr, 10));
  }
  return 0;
}

}  // namespace

}  // namespace regroup::contest

int main(int argc, char** argv) {
  using namespace regroup::contest;
  pin(rank_in_environment());
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Mpi contender;
  const int status = contend(contender, static_cast<regroup::Rank>(rank));
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
