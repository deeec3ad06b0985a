// SPDX-License-Identifier: Apache-2.0
// The sending half of one stream: what goes next, how much may go unasked, and the writing itself. It does not know
// receives, nor why something is sent.
//
// Headers without payload go first, then eager messages, then pieces of up to 256 KiB of all messages that the peer is
// ready for, in turn.
#pragma once

#include <array>
#include <vector>

#include "transport/message.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/pools.h"
#include "transport/tcp/segment_cursor.h"

namespace regroup::transport::tcp {

// A queue of messages, linked through Message::next.
class MessageQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  void push(Message& message);
  Message* pop();
  // Whether it was there. Looks from the head.
  bool remove(Message& message);
  void clear() { head_ = tail_ = nullptr; }

 private:
  Message* head_ = nullptr;
  Message* tail_ = nullptr;
};

class Outgoing {
 public:
  Outgoing(const Stamp& stamp, PayloadPool& pool);

  // Queues a frame without payload.
  void control(const Frame& frame) { control_.push_back(frame); }
  // Queues the whole message if it is small and the window has room for it; else returns false.
  bool offer_eager(Message& message);
  // Queues a message that the peer is ready for.
  void stream(Message& message);
  // The peer has freed `bytes` of the window. False: more than it had.
  bool credit(uint64_t bytes);
  // Drops the message from all queues. Of a frame that is partly written the rest is copied.
  void remove(Message& message);
  // The stream is gone: forgets everything; messages stay posted.
  void abandon();

  bool pending() const {
    return !staged_.empty() || next_control_ < control_.size() || !eager_.empty() || !bulk_.empty();
  }
  // Whether the last write found the socket full.
  bool blocked() const { return blocked_; }

  // Writes as much as the socket takes (within bounds); messages whose last byte is written become done. Returns
  // whether anything was written; `*error`: the error number if the stream is gone, else 0.
  bool flush(int fd, int* error);

 private:
  // A frame that is being written, or will be in the next call.
  struct Staged {
    std::array<std::byte, kHeaderBytes> header;
    Message* message = nullptr;  // its payload comes from here, at `cursor`; nullptr: from `copy`
    SegmentCursor cursor;
    AlignedBytes copy;
    uint64_t copy_offset = 0;
    bool eager = false;
    bool last = false;
    uint64_t bytes = 0;    // header and payload
    uint64_t written = 0;  // of them
  };

  void stage();
  void stage_piece(Message& message, FrameKind kind, uint64_t payload);
  // Describes what is staged and not written; returns the bytes described.
  uint64_t describe(struct iovec* vectors, int* count) const;
  void written(uint64_t bytes);
  void keep_copy(Staged& frame);

  const Stamp stamp_;
  PayloadPool& pool_;
  std::vector<Frame> control_;  // from next_control_ on
  size_t next_control_ = 0;
  MessageQueue eager_;
  MessageQueue bulk_;
  std::vector<Staged> staged_;
  uint64_t staged_bytes_ = 0;  // not yet written
  SegmentCursor next_piece_;   // of the message staged last
  uint64_t outstanding_ = 0;   // of the window
  bool blocked_ = false;
};

}  // namespace regroup::transport::tcp
