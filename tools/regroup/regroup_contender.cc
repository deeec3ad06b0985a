// SPDX-License-Identifier: Apache-2.0
#include "regroup_contender.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "median.h"
#include "overlap.h"
#include "regroup/join.h"
#include "regroup/memory.h"

namespace regroup::tool {

namespace {

using contest::Turn;

// The operation that a turn asks for. all_to_all exchanges lists of buffers; the others cut one buffer. With
// `size_agreed`, it takes the form by which all ranks know the size: one buffer, and counts on all ranks.
Operation operation_of(const Turn& turn, const CallOptions& options, bool size_agreed) {
  const contest::Task& task = *turn.task;
  const bool in = task.in_place;
  const ReduceOp op = task.op;
  const Rank root = task.root;
  const auto buffer = [&](std::byte* data, uint64_t parts) { return Buffer{data, task.type, parts * turn.part}; };
  const auto list = [&](std::byte* data, uint64_t parts) {
    std::vector<Buffer> buffers;
    for (uint64_t part = 0; part < parts; ++part) {
      buffers.emplace_back(data + part * turn.part_bytes(), task.type, turn.part);
    }
    return buffers;
  };
  const std::vector<uint64_t> counts(task.ranks, turn.part);
  const Buffer input = buffer(turn.input, turn.input_parts), output = buffer(turn.output, turn.output_parts);
  switch (task.collective) {
    case Collective::barrier:
      return barrier(options);
    case Collective::broadcast:
      return in ? broadcast(in_place(input), root, options) : broadcast(from(input), into(output), root, options);
    case Collective::all_reduce:
      return in ? all_reduce(in_place(input), op, options) : all_reduce(from(input), into(output), op, options);
    case Collective::reduce:
      if (in) return reduce(in_place(input), op, root, options);
      return turn.at_root() ? reduce(from(input), into(output), op, root, options)
                            : reduce(from(input), op, root, options);
    case Collective::gather:
      if (size_agreed && !in) {
        return turn.at_root() ? gather(from(input), into(output), counts, root, options)
                              : gather(from(input), counts, root, options);
      }
      if (!turn.at_root())
        return gather(from(buffer(in ? turn.input + turn.rank * turn.part_bytes() : turn.input, 1)), root, options);
      return in ? gather(in_place(output), root, options) : gather(from(input), into(output), root, options);
    case Collective::all_gather:
      return in ? all_gather(in_place(output), options) : all_gather(from(input), into(output), options);
    case Collective::scatter:
      if (size_agreed && !in) {
        return turn.at_root() ? scatter(from(input), into(output), counts, root, options)
                              : scatter(into(output), counts, root, options);
      }
      if (!turn.at_root()) return scatter(into(output), root, options);
      return in ? scatter(in_place(input), root, options) : scatter(from(input), into(output), root, options);
    case Collective::reduce_scatter:
      return in ? reduce_scatter(in_place(input), op, options) : reduce_scatter(from(input), into(output), op, options);
    default:
      if (size_agreed) {
        return in ? all_to_all(in_place(output), options) : all_to_all(from(input), into(output), options);
      }
      return in ? all_to_all(in_place(list(turn.output, turn.output_parts)), options)
                : all_to_all(from(list(turn.input, turn.input_parts)), into(list(turn.output, turn.output_parts)),
                             options);
  }
}

class RegroupContender final : public contest::Contender {
 public:
  RegroupContender(const Measurement& what, std::string store_url, contest::SocketRing* ring)
      : what_(what), store_url_(std::move(store_url)), ring_(ring) {}

  std::string start(Rank rank, Rank ranks, std::string* version) override {
    *version = REGROUP_VERSION;
    JoinOptions join;
    join.store_url = store_url_;
    join.rank = rank;
    join.size = ranks;
    join.backend = what_.backend;
    join.transport = what_.call.transport;
    join.threads = what_.call.threads;
    join.timeout = std::chrono::seconds(60);
    Result<ProcessGroup> joined = regroup::join(join);
    if (!joined.ok()) return "could not join: " + joined.status().to_string();
    group_ = joined.value();
    if (ring_ != nullptr && !ring_->connect(rank)) return "could not connect bare sockets";
    return {};
  }

  std::byte* take(uint64_t bytes) override {
    if (!what_.call.mapped) return Contender::take(bytes);
    Result<Allocation> made = allocate(bytes);
    if (!made.ok()) return nullptr;
    return allocations_.emplace_back(std::move(made).value()).data();
  }

  std::string prepare(const Turn& turn) override {
    turn_ = turn;
    CallOptions options;
    options.algorithm = what_.algorithms[turn.variant];
    options.reproducible = what_.call.reproducible;
    operation_ = operation_of(turn, options, what_.call.size_agreed);
    if (!options.algorithm.empty()) {
      // Whether it can serve also follows from what this machine allows.
      const Result<Prepared> prepared = group_.prepare(operation_);
      if (!prepared.ok()) return prepared.status().to_string();
    }
    return what_.overlap ? calibrate() : std::string();
  }

  std::string call() override {
    const Status status = what_.overlap ? one_way(static_cast<Way>(turn_.variant)) : group_.run(operation_);
    return status.ok() ? std::string() : status.to_string();
  }

  void prepare_floor() override {
    const contest::Task& task = *turn_.task;
    const uint64_t bytes = larger_side(task, turn_.part);
    if (ring_ != nullptr) {
      floor_bytes_ = contest::least_wire_bytes(task.collective, task.ranks, bytes);
      return;
    }
    floor_bytes_ = contest::least_bytes(task.collective, task.ranks, bytes);
    // Only the root's output is written.
    if (task.collective == Collective::gather && !turn_.at_root()) floor_bytes_ = 0;
    if (!what_.floor || floor_bytes_ == 0) return;
    copies_.emplace(floor_bytes_);
    copies_->choose(floor_bytes_);
  }

  std::string floor() override {
    if (floor_bytes_ == 0) return {};
    if (ring_ == nullptr) {
      copies_->run(floor_bytes_);
      return {};
    }
    return ring_->exchange(socket_buffer_.data(), socket_buffer_.size(), floor_bytes_, floor_bytes_)
               ? ""
               : "bare sockets failed";
  }

 private:
  Status one_way(Way way) {
    Work work;
    if (way != Way::computation) work = group_.start(operation_);
    if (way != Way::communication) computation_.run();
    return work.wait();
  }

  // The computation is to last as long as the slowest rank's communication, at each size.
  std::string calibrate() {
    if (calibrated_ == turn_.part) return {};
    std::vector<double> times(kCalibrations);
    for (double& time : times) {
      if (Status status = group_.run(barrier()); !status.ok()) return status.to_string();
      const auto begin = std::chrono::steady_clock::now();
      if (Status status = one_way(Way::communication); !status.ok()) return status.to_string();
      time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    }
    std::vector<double> slowest = {median(times)};
    if (Status status = group_.run(all_reduce(in_place(slowest), ReduceOp::maximum)); !status.ok())
      return status.to_string();
    computation_.last(slowest[0]);
    calibrated_ = turn_.part;
    return {};
  }

  static constexpr int kCalibrations = 9;

  const Measurement& what_;
  std::string store_url_;
  contest::SocketRing* ring_;
  ProcessGroup group_;
  std::vector<Allocation> allocations_;
  Turn turn_;
  Operation operation_;
  Computation computation_;
  std::optional<uint64_t> calibrated_;  // for parts of so many elements
  std::optional<contest::CopyFloor> copies_;
  std::vector<std::byte> socket_buffer_ = std::vector<std::byte>(1 << 20);
  uint64_t floor_bytes_ = 0;
};

}  // namespace

std::unique_ptr<contest::Contender> make_regroup_contender(const Measurement& what, const std::string& store_url,
                                                           contest::SocketRing* ring) {
  return std::make_unique<RegroupContender>(what, store_url, ring);
}

}  // namespace regroup::tool
