// SPDX-License-Identifier: Apache-2.0
// Sends and receives: independent of the collectives' order, matched by (peer, tag) in the order of the calls.
#include <algorithm>
#include <cstring>

#include "backend/native/native_backend.h"
#include "base/hash.h"

namespace regroup::backend::native {

using transport::Message;

namespace {

constexpr uint64_t kSendSide = 1ull << 63;

bool sends(const Request& request) { return request.collective == Collective::send; }

// Both sides of a message must mean the same type.
uint64_t pair_fingerprint(const Request& request) { return base::mix(static_cast<uint64_t>(request.type), 7) | 1; }

}  // namespace

uint64_t& NativeBackend::pair_sequence(Rank peer, uint32_t tag, bool sending) {
  return pair_sequences_[uint64_t{peer} << 32 | tag | (sending ? kSendSide : 0)];
}

void NativeBackend::post(Job& job, Rank peer) {
  const Request& request = job.request();
  const bool sending = sends(request);
  const transport::SpaceMemory& memory = sending ? request.input : request.output;
  Message& message = job.message_;
  message.peer = peer;
  message.key = {transport::MessageKey::Lane::pairwise, request.tag, pair_sequence(peer, request.tag, sending)++, 0};
  message.fingerprint = pair_fingerprint(request);
  message.bytes = memory.total();
  message.single = memory.part(0);
  message.segments = {&message.single, message.bytes > 0 ? 1u : 0u};
  job.posted_ = true;
  if (some_left_.load(std::memory_order_acquire)) alarm_.store(true, std::memory_order_release);
  if (peer == facts_.rank) return;  // matched here
  if (sending) {
    transport_->post_send(message);
  } else {
    transport_->post_receive(message);
  }
}

// Sends to oneself meet receives from oneself.
bool NativeBackend::match_self() {
  bool moved = false;
  for (Job* sender : pairwise_) {
    if (!sender->posted_ || sender->message_.peer != facts_.rank || !sends(sender->request())) continue;
    Message& from = sender->message_;
    if (from.state != Message::State::idle) continue;
    for (Job* receiver : pairwise_) {
      if (!receiver->posted_ || receiver->message_.peer != facts_.rank || sends(receiver->request())) continue;
      Message& to = receiver->message_;
      if (to.state != Message::State::idle || !(to.key == from.key)) continue;
      const bool fits = to.bytes == from.bytes && to.fingerprint == from.fingerprint;
      if (fits && to.bytes > 0) std::memmove(to.single.data, from.single.data, to.bytes);
      to.state = from.state = fits ? Message::State::done : Message::State::mismatched;
      to.other_bytes = from.bytes;
      to.other_fingerprint = from.fingerprint;
      from.other_bytes = to.bytes;
      from.other_fingerprint = to.fingerprint;
      moved = true;
      break;
    }
  }
  return moved;
}

bool NativeBackend::advance_pairwise() {
  bool moved = false;
  bool to_self = false;
  for (Job* job : pairwise_) {
    if (!job->posted_) {
      const Request& request = job->request();
      if (request.collective != Collective::receive_any) {
        post(*job, request.root);
        moved = true;
      } else {
        any_sequences_.resize(facts_.size);
        for (Rank r = 0; r < facts_.size; ++r) any_sequences_[r] = pair_sequence(r, request.tag, false);
        Rank from = transport_->announced(request.tag, any_sequences_);
        for (Job* sender : pairwise_) {  // perhaps from oneself
          if (sender->posted_ && sends(sender->request()) && sender->message_.peer == facts_.rank &&
              sender->message_.key.tag == request.tag && sender->message_.key.sequence == any_sequences_[facts_.rank]) {
            from = std::min(from, facts_.rank);
          }
        }
        if (from != plan::kNoRank) {
          if (request.source != nullptr) *request.source = from;
          post(*job, from);
          moved = true;
        }
      }
    }
    to_self |= job->posted_ && job->message_.peer == facts_.rank;
  }
  if (to_self) moved |= match_self();
  moved |= transport_->progress();
  for (size_t i = 0; i < pairwise_.size();) {
    Job& job = *pairwise_[i];
    if (!job.posted_ || !job.message_.finished()) {
      ++i;
      continue;
    }
    pairwise_.erase(pairwise_.begin() + static_cast<ptrdiff_t>(i));
    end_pair(job);
    moved = true;
  }
  return moved;
}

void NativeBackend::end_pair(Job& job) {
  const Message& message = job.message_;
  if (message.state == Message::State::done) {
    finish(job, Status());
    return;
  }
  const std::string what = std::string(name(job.request().collective)) + " with tag " + std::to_string(message.key.tag);
  std::string text =
      "rank " + std::to_string(facts_.rank) + " and rank " + std::to_string(message.peer) + " disagree on a message: ";
  if (message.bytes != message.other_bytes) {
    text += what + " is of " + std::to_string(message.bytes) + " bytes here and of " +
            std::to_string(message.other_bytes) + " there";
  } else {
    text += what + " is of " + std::string(name(job.request().type)) + " here and of another type there";
  }
  finish(job, Status(StatusCode::mismatch, text, {message.peer}, 1));
}

}  // namespace regroup::backend::native
