// SPDX-License-Identifier: Apache-2.0
#include "executor/execution.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace regroup::executor {

using plan::Slice;
using plan::Source;
using plan::Step;
using plan::StepIndex;
using plan::StepKind;
using transport::Message;
using transport::Segment;

namespace {

// Bytes that are folded at a time: small enough that blocks of all sources stay in the cache.
constexpr uint64_t kFoldBlock = 64 << 10;
// Bytes that are read from a peer between two looks whether they still count; for each thread of a team.
constexpr uint64_t kReadBlock = 256 << 10;
// Results of operations of at least so many bytes go past the caches where they are copied: nobody will find them
// there.
constexpr uint64_t kStreamFrom = 4 << 20;
// Marks that are looked for between two steps.
constexpr size_t kMostLooks = 64;

// The first contiguous piece of a slice of this rank's memory, `skip` bytes in.
Segment first_piece(const transport::SpaceMemory& space, const Slice& slice, uint64_t element_bytes, uint64_t skip,
                    uint64_t bytes) {
  Segment piece;
  space.pieces(slice.part, slice.offset * element_bytes + skip, bytes, [&piece](std::byte* data, uint64_t take) {
    if (piece.data == nullptr) piece = {data, take};
  });
  return piece;
}

}  // namespace

void Execution::start(const Program& program, std::span<const Binding> bindings, transport::Transport& transport,
                      uint64_t sequence, uint64_t fingerprint, Team* team) {
  program_ = &program;
  bindings_ = bindings;
  transport_ = &transport;
  sequence_ = sequence;
  fingerprint_ = fingerprint;
  waits_ = program.waits();
  // Which of these fills up depends on who comes first: none may have to grow later.
  for (auto* steps : {&ready_, &urgent_, &active_, &awaits_}) steps->reserve(waits_.size());
  ready_ = program.first();
  next_ready_ = 0;
  active_.clear();
  awaits_.clear();
  urgent_.clear();
  left_ = program.schedule().steps().size();
  mismatch_ = nullptr;
  lost_rank_ = plan::kNoRank;
  was_withdrawn_ = false;
  uint64_t inputs = 0, results = 0;
  for (const Binding& binding : bindings) {
    inputs += binding.memory.spaces[static_cast<size_t>(plan::Space::input)].total();
    results += binding.memory.spaces[static_cast<size_t>(plan::Space::output)].total();
  }
  stream_ = results >= kStreamFrom;
  const bool worth_a_team = team != nullptr && team->threads() > 1 && std::max(inputs, results) >= kTeamOperation;
  team_ = worth_a_team ? team : nullptr;
  bind_messages();
}

void Execution::bind_messages() {
  foldings_.clear();
  for (const Binding& binding : bindings_) {
    foldings_.push_back(binding.folding);
    foldings_.back().options.divisor = 0;  // partial results are not divided
    foldings_.push_back(binding.folding);
    for (size_t i = foldings_.size() - 2; i < foldings_.size(); ++i) foldings_[i].received_first = false;
    foldings_.push_back(foldings_[foldings_.size() - 2]);
    foldings_.push_back(foldings_[foldings_.size() - 2]);
    for (size_t i = foldings_.size() - 2; i < foldings_.size(); ++i) foldings_[i].received_first = true;
  }
  messages_.assign(program_->messages(), Message());
  if (messages_.empty()) return;
  const auto& steps = program_->schedule().steps();
  segments_.clear();
  // What has several pieces: where they begin.
  std::vector<std::pair<std::span<const Segment>*, size_t>> first_segment;
  const auto bind = [&](uint16_t member, const Slice& slice, std::span<const Segment>* pieces, Segment* single) {
    const uint64_t width = element_bytes(member);
    const size_t before = segments_.size();
    space(member, slice.space)
        .pieces(slice.part, slice.offset * width, slice.count * width, [this](std::byte* data, uint64_t bytes) {
          segments_.push_back({data, bytes});
        });
    const size_t count = segments_.size() - before;
    if (count <= 1) {
      if (count == 1) *single = segments_.back();
      segments_.resize(before);
      *pieces = {single, count};
    } else {
      first_segment.emplace_back(pieces, before);
      *pieces = {static_cast<Segment*>(nullptr), count};
    }
  };
  for (StepIndex index = 0; index < steps.size(); ++index) {
    const Step& step = steps[index];
    const bool sends = step.kind == StepKind::send;
    if (!sends && step.kind != StepKind::receive && step.kind != StepKind::receive_reduce) continue;
    const Slice& slice = sends ? program_->schedule().sources(step)[0].slice : step.to;
    Message& message = messages_[program_->message_of(index)];
    message.peer = step.peer;
    message.key = {transport::MessageKey::Lane::collective, 0, sequence_, step.message};
    message.fingerprint = fingerprint_;
    message.bytes = slice.count * element_bytes(step.member);
    if (step.kind == StepKind::receive_reduce) {
      message.folding = &foldings_[4u * step.member + (step.finish ? 1 : 0) + (step.received_first ? 2 : 0)];
    }
    bind(step.member, slice, &message.segments, &message.single);
    if (const StepIndex spared = program_->spared_copy(index); spared != plan::kNoStep) {
      const Slice& kept = program_->schedule().sources(steps[spared])[0].slice;
      bind(step.member, kept, &message.operand, &message.single_operand);
    }
  }
  // Only now, when segments_ no longer grows, do its addresses stay.
  for (const auto& [pieces, begin] : first_segment) *pieces = {segments_.data() + begin, pieces->size()};
}

// Steps run in the order in which they become ready, but for one thing: what a peer's mark allows comes first, because
// what the peer has just written is likely to be in a cache still.
Execution::Outcome Execution::advance() {
  bool moved = false;
  while (lost_rank_ == plan::kNoRank) {
    moved |= look_at_marks();
    const bool urgent = !urgent_.empty();
    if (!urgent && next_ready_ == ready_.size()) {
      if (!look_at_messages()) break;
      moved = true;
      continue;
    }
    const StepIndex index = urgent ? urgent_.back() : ready_[next_ready_++];
    if (urgent) urgent_.pop_back();
    const Try result = run(index);
    if (result == Try::failed) break;
    moved = true;
    if (result == Try::done) {
      complete(index, &ready_);
    } else {
      (program_->schedule().steps()[index].kind == StepKind::await ? awaits_ : active_).push_back(index);
    }
  }
  if (mismatch_ != nullptr) return Outcome::mismatched;
  if (lost_rank_ != plan::kNoRank) return was_withdrawn_ ? Outcome::withdrawn : Outcome::lost;
  if (left_ == 0) return Outcome::done;
  return moved ? Outcome::moved : Outcome::waiting;
}

// True if a mark has come. Of many awaits only the first few are looked at: planners chain those on one peer.
bool Execution::look_at_marks() {
  bool moved = false;
  for (size_t i = 0; i < awaits_.size() && i < kMostLooks;) {
    const StepIndex index = awaits_[i];
    const Step& step = program_->schedule().steps()[index];
    if (!transport_->notified(step.peer, step.mark)) {
      ++i;
      continue;
    }
    awaits_[i] = awaits_.back();
    awaits_.pop_back();
    complete(index, &urgent_);
    moved = true;
  }
  return moved;
}

// True if a message is over.
bool Execution::look_at_messages() {
  bool moved = false;
  for (size_t i = 0; i < active_.size() && mismatch_ == nullptr;) {
    const StepIndex index = active_[i];
    if (poll(index) != Try::done) {
      ++i;
      continue;
    }
    active_[i] = active_.back();
    active_.pop_back();
    complete(index, &ready_);
    moved = true;
  }
  return moved && mismatch_ == nullptr;
}

void Execution::complete(StepIndex index, std::vector<StepIndex>* ready) {
  --left_;
  if (next_ready_ == ready_.size()) {
    ready_.clear();
    next_ready_ = 0;
  }
  for (const StepIndex later : program_->successors(index)) {
    if (--waits_[later] == 0) ready->push_back(later);
  }
}

Execution::Try Execution::run(StepIndex index) {
  const Step& step = program_->schedule().steps()[index];
  switch (step.kind) {
    case StepKind::copy:
      if (!program_->spared(index)) copy(step);
      return Try::done;
    case StepKind::reduce:
      reduce(step);
      return Try::done;
    case StepKind::get:
      return get(step);
    case StepKind::get_reduce:
      return get_reduce(step);
    case StepKind::notify:
      transport_->notify(step.mark);
      return Try::done;
    case StepKind::await:
      return transport_->notified(step.peer, step.mark) ? Try::done : Try::later;
    case StepKind::send:
    case StepKind::receive:
    case StepKind::receive_reduce:
      return post(step, index);
  }
  return Try::failed;
}

Execution::Try Execution::post(const Step& step, StepIndex index) {
  Message& message = messages_[program_->message_of(index)];
  if (step.kind == StepKind::send) {
    transport_->post_send(message);
  } else {
    transport_->post_receive(message);
  }
  return poll(index);
}

Execution::Try Execution::poll(StepIndex index) {
  const Message& message = messages_[program_->message_of(index)];
  if (message.state == Message::State::mismatched) mismatch_ = &message;
  return message.state == Message::State::done ? Try::done : Try::later;
}

void Execution::copy(const Step& step) {
  const Source& source = program_->schedule().sources(step)[0];
  const uint64_t width = element_bytes(step.member);
  const uint64_t bytes = step.to.count * width;
  const bool stream = stream_ && step.to.space == plan::Space::output;  // scratch is read again soon
  const transport::SpaceMemory& from_space = space(step.member, source.slice.space);
  uint64_t done = 0;
  space(step.member, step.to.space)
      .pieces(step.to.part, step.to.offset * width, bytes, [&](std::byte* to, uint64_t take) {
        while (take > 0) {
          const Segment piece = first_piece(from_space, source.slice, width, done, take);
          // In place, source and destination are the same memory.
          if (piece.data != to) copy_together(team_, to, piece.data, piece.bytes, stream);
          to += piece.bytes;
          take -= piece.bytes;
          done += piece.bytes;
        }
      });
}

void Execution::reduce(const Step& step) {
  const Try result = get_reduce(step);
  REGROUP_ASSERT(result == Try::done);
}

Execution::Try Execution::get(const Step& step) {
  const Source& source = program_->schedule().sources(step)[0];
  const uint64_t width = element_bytes(step.member);
  const uint64_t bytes = step.to.count * width;
  const uint64_t most = kReadBlock * (team_ != nullptr ? team_->threads() : 1);
  uint64_t done = 0;
  bool good = true;
  space(step.member, step.to.space)
      .pieces(step.to.part, step.to.offset * width, bytes, [&](std::byte* to, uint64_t take) {
        while (take > 0 && good) {
          const uint64_t block = std::min(take, most);
          const transport::Reading reading(*transport_);
          const transport::Located at =
              transport_->locate(source.rank, step.member, source.slice.space, source.slice.part,
                                 source.slice.offset * width + done, block);
          good = at.bytes > 0;
          if (!good) return;
          if (at.mapped != nullptr) {
            copy_together(team_, to, at.mapped, at.bytes, stream_);
          } else {
            good = read_together(source.rank, at.address, to, at.bytes);
          }
          good = good && transport_->counts(source.rank);
          to += at.bytes;
          take -= at.bytes;
          done += at.bytes;
        }
      });
  return good ? Try::done : unreadable(source.rank);
}

// A peer that took its memory back may have freed it, too: what cannot be read then tells nothing else.
Execution::Try Execution::unreadable(Rank rank) {
  lost_rank_ = rank;
  was_withdrawn_ = !transport_->counts(rank);
  return Try::failed;
}

// Copies a block of a peer's memory, `skip` bytes into the source, to `to`.
bool Execution::fetch(const Source& source, uint16_t member, uint64_t skip, std::byte* to, uint64_t bytes) {
  const uint64_t width = element_bytes(member);
  while (bytes > 0) {
    const transport::Located at = transport_->locate(source.rank, member, source.slice.space, source.slice.part,
                                                     source.slice.offset * width + skip, bytes);
    if (at.bytes == 0) return false;
    if (at.mapped != nullptr) {
      std::memcpy(to, at.mapped, at.bytes);
    } else if (!transport_->read(source.rank, at.address, to, at.bytes)) {
      return false;
    }
    to += at.bytes;
    skip += at.bytes;
    bytes -= at.bytes;
  }
  return true;
}

bool Execution::read_together(Rank rank, uint64_t address, std::byte* to, uint64_t bytes) {
  if (team_ == nullptr || bytes < kTeamBlock) return transport_->read(rank, address, to, bytes);
  std::atomic<bool> good = true;
  team_->run(pieces_of(bytes), [&](unsigned, uint32_t piece) {
    const uint64_t offset = piece * kTeamPiece;
    if (!transport_->read(rank, address + offset, to + offset, std::min(kTeamPiece, bytes - offset))) good = false;
  });
  return good;
}

// Folds block by block.
Execution::Try Execution::get_reduce(const Step& step) {
  const auto sources = program_->schedule().sources(step);
  const uint64_t bytes = step.to.count * element_bytes(step.member);
  const Rank self = program_->schedule().rank();
  for (uint64_t done = 0; done < bytes;) {
    const transport::Reading reading(*transport_);
    uint64_t folded = 0;
    Rank failed = team_ != nullptr ? fold_together(step, done, &folded) : plan::kNoRank;
    if (folded == 0 && failed == plan::kNoRank) failed = fold_block(step, done, &folded);
    if (failed != plan::kNoRank) return unreadable(failed);
    for (const Source& source : sources) {
      if (source.rank != self && !transport_->counts(source.rank)) return unreadable(source.rank);
    }
    done += folded;
  }
  return Try::done;
}

// Folds a block, `done` bytes into the step. A source's block that is contiguous and readable in place is used where it
// lies; others are fetched into staging first. Returns the rank whose memory cannot be read, or kNoRank.
Rank Execution::fold_block(const Step& step, uint64_t done, uint64_t* folded) {
  const auto sources = program_->schedule().sources(step);
  const uint64_t width = element_bytes(step.member);
  const transport::Folding& folding = foldings_[4u * step.member + (step.finish ? 1 : 0)];
  const uint64_t most = std::min(kFoldBlock / width * width, step.to.count * width - done);
  const Segment to = first_piece(space(step.member, step.to.space), step.to, width, done, most);
  operands_.resize(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    std::byte* staged = nullptr;
    const auto stage = [&] {
      if (staging_.size() < sources.size() * kFoldBlock) staging_.resize(sources.size() * kFoldBlock);
      return staged = staging_.data() + i * kFoldBlock;
    };
    if (source.rank == program_->schedule().rank()) {
      const Segment piece = first_piece(space(step.member, source.slice.space), source.slice, width, done, to.bytes);
      operands_[i] = piece.data;
      if (piece.bytes < to.bytes) {
        std::byte* at = stage();
        operands_[i] = at;
        space(step.member, source.slice.space)
            .pieces(source.slice.part, source.slice.offset * width + done, to.bytes,
                    [&at](std::byte* data, uint64_t take) {
                      std::memcpy(at, data, take);
                      at += take;
                    });
      }
      continue;
    }
    const transport::Located at = transport_->locate(source.rank, step.member, source.slice.space, source.slice.part,
                                                     source.slice.offset * width + done, to.bytes);
    operands_[i] = at.mapped;
    if (at.mapped != nullptr && at.bytes == to.bytes) continue;
    operands_[i] = stage();
    if (!fetch(source, step.member, done, staged, to.bytes)) return source.rank;
  }
  folding.fold(to.data, operands_.data(), static_cast<uint32_t>(operands_.size()), to.bytes / width, folding.options);
  *folded = to.bytes;
  return plan::kNoRank;
}

// Likewise, by the whole team: as much as every operand has in one piece, of which each thread folds parts. Folds
// nothing where that is too little to share.
Rank Execution::fold_together(const Step& step, uint64_t done, uint64_t* folded) {
  static_assert(kTeamPiece == kFoldBlock);
  const auto sources = program_->schedule().sources(step);
  const uint64_t width = element_bytes(step.member);
  const transport::Folding& folding = foldings_[4u * step.member + (step.finish ? 1 : 0)];
  const uint64_t most = std::min(kReadBlock * team_->threads(), step.to.count * width - done);
  Segment to = first_piece(space(step.member, step.to.space), step.to, width, done, most);
  operands_together_.clear();
  bool all_mapped = true;
  for (const Source& source : sources) {
    transport::Located at;
    if (source.rank == program_->schedule().rank()) {
      const Segment piece = first_piece(space(step.member, source.slice.space), source.slice, width, done, to.bytes);
      at = {piece.data, 0, piece.bytes};
    } else {
      at = transport_->locate(source.rank, step.member, source.slice.space, source.slice.part,
                              source.slice.offset * width + done, to.bytes);
      if (at.bytes == 0) return source.rank;
    }
    to.bytes = std::min(to.bytes, at.bytes);
    if (to.bytes < kTeamBlock) return plan::kNoRank;
    all_mapped &= at.mapped != nullptr;
    operands_together_.push_back(at);
  }

  lanes_.resize(team_->threads());
  for (Lane& lane : lanes_) {
    lane.operands.resize(sources.size());
    if (!all_mapped && lane.staging.size() < sources.size() * kTeamPiece)
      lane.staging.resize(sources.size() * kTeamPiece);
  }
  std::atomic<Rank> failed = plan::kNoRank;
  team_->run(pieces_of(to.bytes), [&](unsigned lane, uint32_t piece) {
    const uint64_t offset = piece * kTeamPiece;
    const uint64_t bytes = std::min(kTeamPiece, to.bytes - offset);
    std::vector<const void*>& operands = lanes_[lane].operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      const transport::Located& at = operands_together_[i];
      if (at.mapped != nullptr) {
        operands[i] = at.mapped + offset;
        continue;
      }
      std::byte* staged = lanes_[lane].staging.data() + i * kTeamPiece;
      operands[i] = staged;
      if (transport_->read(sources[i].rank, at.address + offset, staged, bytes)) continue;
      failed = sources[i].rank;
      return;
    }
    folding.fold(to.data + offset, operands.data(), static_cast<uint32_t>(operands.size()), bytes / width,
                 folding.options);
  });
  *folded = to.bytes;
  return failed;
}

void Execution::cancel() {
  for (Message& message : messages_) transport_->cancel(message);
  active_.clear();
  awaits_.clear();
  urgent_.clear();
  ready_.clear();
  next_ready_ = 0;
}

void Execution::waiting_for(std::vector<Rank>* ranks) const {
  for (const auto* waiting : {&active_, &awaits_}) {
    for (const StepIndex index : *waiting) ranks->push_back(program_->schedule().steps()[index].peer);
  }
}

}  // namespace regroup::executor
