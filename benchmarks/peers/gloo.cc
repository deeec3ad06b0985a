// SPDX-License-Identifier: Apache-2.0
// Gloo, as Debian packs it, over its TCP transport: the only one it has. Forks its ranks.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "contest/contender.h"

namespace regroup::contest {

namespace {

using Fold = void (*)(void*, const void*, const void*, size_t);

template <typename T>
Fold fold_of(ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::sum:
      return &gloo::sum<T>;
    case ReduceOp::Kind::product:
      return &gloo::product<T>;
    case ReduceOp::Kind::minimum:
      return &gloo::min<T>;
    case ReduceOp::Kind::maximum:
      return &gloo::max<T>;
    default:
      return nullptr;
  }
}

class Gloo final : public Contender {
 public:
  std::string start(Rank rank, Rank ranks, std::string* version) override {
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    gloo::rendezvous::FileStore store(std::getenv("REGROUP_CONTEST_FOLDER"));
    auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), static_cast<int>(ranks));
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
    *version = "Debian's libgloo-dev";
    return {};
  }

  std::string prepare(const Turn& turn) override {
    turn_ = turn;
    const Task& task = *turn.task;
    if (task.collective == Collective::reduce_scatter) return "Gloo's reduce_scatter takes no separate output";
    if (task.in_place && has_parts(task.collective)) return "Gloo has no in-place form of it";
    if (!reduces(task.collective)) return prepare_moving();
    switch (task.type) {
      case DataType::float32:
        return prepare_reducing<float>();
      case DataType::float64:
        return prepare_reducing<double>();
      case DataType::int32:
        return prepare_reducing<int32_t>();
      case DataType::int64:
        return prepare_reducing<int64_t>();
      case DataType::int8:
        return prepare_reducing<int8_t>();
      case DataType::uint8:
        return prepare_reducing<uint8_t>();
      default:
        return "the driver has no " + std::string(name(task.type));
    }
  }

  // Exceptions of Gloo's end the contender with their text.
  std::string call() override {
    call_();
    return {};
  }

 private:
  // Options are made once, which spares Gloo the registration of buffers in each call.
  std::string prepare_moving() {
    const Task& task = *turn_.task;
    const int root = static_cast<int>(task.root);
    const size_t part = turn_.part_bytes();
    auto* input = reinterpret_cast<uint8_t*>(turn_.input);
    auto* output = reinterpret_cast<uint8_t*>(turn_.output);
    switch (task.collective) {
      case Collective::barrier: {
        auto options = std::make_shared<gloo::BarrierOptions>(context_);
        call_ = [options] { gloo::barrier(*options); };
        return {};
      }
      case Collective::broadcast: {
        auto options = std::make_shared<gloo::BroadcastOptions>(context_);
        if (turn_.at_root() && !task.in_place) options->setInput(input, part);
        options->setOutput(output, part);
        options->setRoot(root);
        call_ = [options] { gloo::broadcast(*options); };
        return {};
      }
      case Collective::gather: {
        auto options = std::make_shared<gloo::GatherOptions>(context_);
        options->setInput(input, part);
        if (turn_.at_root()) options->setOutput(output, part * task.ranks);
        options->setRoot(root);
        call_ = [options] { gloo::gather(*options); };
        return {};
      }
      case Collective::all_gather: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context_);
        options->setInput(input, part);
        options->setOutput(output, part * task.ranks);
        call_ = [options] { gloo::allgather(*options); };
        return {};
      }
      case Collective::scatter: {
        auto options = std::make_shared<gloo::ScatterOptions>(context_);
        if (turn_.at_root()) {
          std::vector<uint8_t*> parts;
          for (Rank rank = 0; rank < task.ranks; ++rank) parts.push_back(input + rank * part);
          options->setInputs(parts, part);
        }
        options->setOutput(output, part);
        options->setRoot(root);
        call_ = [options] { gloo::scatter(*options); };
        return {};
      }
      default: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context_);
        options->setInput(input, part * task.ranks);
        options->setOutput(output, part * task.ranks);
        call_ = [options] { gloo::alltoall(*options); };
        return {};
      }
    }
  }

  template <typename T>
  std::string prepare_reducing() {
    const Task& task = *turn_.task;
    const Fold fold = fold_of<T>(task.op.kind);
    if (fold == nullptr) return "Gloo has no " + std::string(name(task.op.kind));
    auto* input = reinterpret_cast<T*>(turn_.input);
    auto* output = reinterpret_cast<T*>(turn_.output);
    if (task.collective == Collective::all_reduce) {
      auto options = std::make_shared<gloo::AllreduceOptions>(context_);
      if (!task.in_place) options->setInput(input, turn_.part);
      options->setOutput(output, turn_.part);
      options->setReduceFunction(fold);
      call_ = [options] { gloo::allreduce(*options); };
      return {};
    }
    // Gloo's reduce wants an output on every rank.
    if (scratch_ == nullptr) scratch_ = take(*std::max_element(task.parts, task.parts + task.sizes) * sizeof(T));
    if (scratch_ == nullptr) return "not enough memory";
    auto options = std::make_shared<gloo::ReduceOptions>(context_);
    options->setInput(input, turn_.part);
    options->setOutput(turn_.at_root() ? output : reinterpret_cast<T*>(scratch_), turn_.part);
    options->setReduceFunction(fold);
    options->setRoot(static_cast<int>(task.root));
    call_ = [options] { gloo::reduce(*options); };
    return {};
  }

  std::shared_ptr<gloo::Context> context_;
  Turn turn_;
  std::function<void()> call_;
  std::byte* scratch_ = nullptr;
};

int run_rank(Rank rank) {
  pin(rank);
  Gloo contender;
  return contend(contender, rank);
}

}  // namespace

}  // namespace regroup::contest

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gloo-driver RANKS\n");
    return 2;
  }
  const unsigned long ranks = std::strtoul(argv[1], nullptr, 10);
  const pid_t parent = ::getpid();
  for (regroup::Rank rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child > 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(::getppid() == parent ? regroup::contest::run_rank(rank) : 1);
  }
  int failed = 0, status = 0;
  while (::wait(&status) > 0) failed |= status;
  return failed == 0 ? 0 : 1;
}
