// SPDX-License-Identifier: Apache-2.0
#include "bare_contender.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "plan/partition.h"
#include "reduce/copy.h"
#include "reduce/reduce.h"

namespace regroup::tool {

namespace {

using contest::Task;
using contest::Turn;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kOnePhase = 64 << 10;   // up to here each rank folds everything itself
constexpr uint64_t kBlock = 64 << 10;      // bytes that are folded at a time
constexpr uint64_t kStreamFrom = 8 << 20;  // copies of larger vectors go past the caches
constexpr uint32_t kInput = 0, kOutput = 1;

class BareContender final : public contest::Contender {
 public:
  explicit BareContender(BareArea& area) : area_(area) {}

  std::string start(Rank rank, Rank ranks, std::string* version) override {
    rank_ = rank;
    ranks_ = ranks;
    *version = "by hand";
    return {};
  }
  std::byte* take(uint64_t) override { return area_.buffer(rank_, taken_++); }

  std::string prepare(const Turn& turn) override {
    turn_ = turn;
    const Task& task = *turn.task;
    if (task.in_place) return "only out of place";
    if (reduces(task.collective)) {
      fold_ = reduction::find_fold(task.type, task.op.kind);
      if (fold_ == nullptr) return "no such reduction";
      options_ = {task.op.factor, task.op.kind == ReduceOp::Kind::average ? task.ranks : 0};
    }
    switch (task.collective) {
      case Collective::barrier:
      case Collective::all_reduce:
      case Collective::reduce_scatter:
      case Collective::all_to_all:
      case Collective::all_gather:
      case Collective::broadcast:
        return {};
      default:
        return "not written by hand";
    }
  }

  // All inputs are there: the ranks have just met.
  std::string call() override {
    const uint64_t part = turn_.part_bytes();
    switch (turn_.task->collective) {
      case Collective::all_reduce:
        all_reduce();
        return {};
      case Collective::reduce_scatter:
        fold(rank_ * part, 0, part);
        break;
      case Collective::all_to_all:
        for (Rank i = 0; i < ranks_; ++i) {
          const Rank from = (rank_ + i) % ranks_;
          copy(turn_.output + from * part, area_.buffer(from, kInput) + rank_ * part, part);
        }
        break;
      case Collective::all_gather:
        for (Rank i = 0; i < ranks_; ++i) {
          const Rank from = (rank_ + i) % ranks_;
          copy(turn_.output + from * part, area_.buffer(from, kInput), part);
        }
        break;
      case Collective::broadcast:
        copy(turn_.output, area_.buffer(turn_.task->root, kInput), part);
        break;
      default:
        break;
    }
    area_.meeting().wait(ranks_);  // nobody writes its input anew while others read it
    return {};
  }

 private:
  void copy(std::byte* to, const std::byte* from, uint64_t bytes) const {
    if (larger_side(*turn_.task, turn_.part) >= kStreamFrom)
      reduction::copy_streaming(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }

  // output[to …] ← fold of all inputs[from …]
  void fold(uint64_t from, uint64_t to, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += kBlock) {
      const uint64_t now = std::min(kBlock, bytes - done);
      sources_.clear();
      for (Rank rank = 0; rank < ranks_; ++rank) sources_.push_back(area_.buffer(rank, kInput) + from + done);
      fold_(turn_.output + to + done, sources_.data(), ranks_, now / size_of(turn_.task->type), options_);
    }
  }

  void all_reduce() {
    const uint64_t bytes = turn_.part_bytes();
    if (bytes <= kOnePhase) {
      fold(0, 0, bytes);
      area_.meeting().wait(ranks_);
      return;
    }
    const uint64_t width = size_of(turn_.task->type);
    const auto share = [&](Rank rank) { return plan::share_of(turn_.part, ranks_, rank); };
    fold(share(rank_).offset * width, share(rank_).offset * width, share(rank_).count * width);
    area_.meeting().wait(ranks_);
    for (Rank i = 1; i < ranks_; ++i) {
      const plan::Share theirs = share((rank_ + i) % ranks_);
      const uint64_t at = theirs.offset * width;
      copy(turn_.output + at, area_.buffer((rank_ + i) % ranks_, kOutput) + at, theirs.count * width);
    }
    area_.meeting().wait(ranks_);  // nobody's output changes while others read it
  }

  BareArea& area_;
  Rank rank_ = 0, ranks_ = 1;
  uint32_t taken_ = 0;
  Turn turn_;
  reduction::Fold fold_ = nullptr;
  reduction::FoldOptions options_;
  std::vector<const void*> sources_;
};

}  // namespace

BareArea::BareArea(const Task& task) {
  const uint64_t most = *std::max_element(task.parts, task.parts + task.sizes);
  buffer_bytes_ = (larger_side(task, most) + 2 * kPage - 1) / kPage * kPage;
  bytes_ = kPage + task.ranks * 2 * buffer_bytes_;
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  std::memset(memory_, 0, bytes_);
}

BareArea::~BareArea() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

std::byte* BareArea::buffer(Rank rank, uint32_t k) const { return memory_ + kPage + (rank * 2 + k) * buffer_bytes_; }

std::unique_ptr<contest::Contender> make_bare_contender(BareArea& area) {
  return std::make_unique<BareContender>(area);
}

}  // namespace regroup::tool
