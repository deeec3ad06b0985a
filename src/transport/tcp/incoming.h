// SPDX-License-Identifier: Apache-2.0
// The receiving half of one stream: cuts it into frames and puts their payload where a FrameSink says. It does not know
// which message a frame belongs to.
//
// Small frames are read together through a buffer; the payload of large ones goes from the socket to its place.
#pragma once

#include <sys/uio.h>

#include "transport/message.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/pools.h"
#include "transport/tcp/segment_cursor.h"

namespace regroup::transport::tcp {

// Where a frame's payload goes.
struct Destination {
  enum class Kind : uint8_t {
    skip,   // nowhere
    place,  // into the segments of `message`
    fold,   // folded into the segments of `message`, once the payload is whole
    early,  // to `early->data`
  };
  Kind kind = Kind::skip;
  Message* message = nullptr;
  Early* early = nullptr;
};

class FrameSink {
 public:
  // Called for each header. Returns nullptr, or why the stream is broken.
  virtual const char* accept(const Frame& frame, Destination* destination) = 0;
  // The payload (which may be empty) is where it belongs.
  virtual void complete(const Frame& frame, const Destination& destination) = 0;

 protected:
  ~FrameSink() = default;
};

class Incoming {
 public:
  Incoming(const Stamp& stamp, PayloadPool& pool, uint64_t inbox_bytes);

  struct Outcome {
    bool moved = false;
    bool ended = false;            // the peer has closed its side
    int error = 0;                 // the stream is gone
    const char* broken = nullptr;  // the stream says what it must not
  };
  // Reads what is there, within bounds.
  Outcome read(int fd, FrameSink& sink);

  // The rest of the current payload is not for this message any more.
  void forget(const Message& message);

 private:
  uint64_t describe(iovec* vectors, int* count, bool* whole);
  void direct(uint64_t bytes);
  const char* consume(FrameSink& sink);
  bool fold_in_place();
  void finish(FrameSink& sink);

  const Stamp stamp_;
  PayloadPool& pool_;
  const uint64_t inbox_bytes_;
  AlignedBytes inbox_;
  uint64_t begin_ = 0, end_ = 0;  // what was read into the inbox and not yet looked at

  bool in_payload_ = false;
  Frame frame_;
  Destination destination_;
  uint64_t arrived_ = 0;  // bytes of the payload
  SegmentCursor cursor_;
  AlignedBytes fold_;
};

}  // namespace regroup::transport::tcp
