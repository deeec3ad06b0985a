// SPDX-License-Identifier: Apache-2.0
// One peer: its stream, what is posted with it, and what came from it early. Matches frames to messages and keeps both
// sides' promises about the window. It does not know the other peers, nor when it is driven.
#pragma once

#include <functional>
#include <string>

#include "base/fd.h"
#include "transport/tcp/incoming.h"
#include "transport/tcp/key_table.h"
#include "transport/tcp/outgoing.h"
#include "transport/transport.h"

namespace regroup::transport::tcp {

class Connection;

// What the connections of one transport have in common.
struct Shared {
  Stamp stamp;
  Rank rank = 0;
  // The collective operation that was begun last.
  uint64_t sequence = 0;
  Signature signature;
  uint64_t fingerprint = 0;
  bool conflicting = false;
  Conflict conflict;
  // Fingerprints of the last operations, by sequence modulo the size: frames of theirs may come late, and disagree.
  struct Past {
    uint64_t sequence = 0;
    uint64_t fingerprint = 0;
  };
  Past past[64];
  std::function<void(Rank peer, uint64_t sequence)> on_late_conflict;

  EarlyPool early;
  PayloadPool payloads;
  std::vector<Connection*> sending;  // those that have something to write
};

class Connection final : private FrameSink {
 public:
  Connection(Rank peer, base::Fd stream, uint64_t inbox_bytes, Shared& shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Rank peer() const { return peer_; }
  int fd() const { return stream_.get(); }
  bool lost() const { return !loss_.ok(); }
  // Why, once lost.
  const Status& loss() const { return loss_; }

  void post_send(Message& message);
  void post_receive(Message& message);
  void cancel(Message& message);
  // An operation has begun: drops what came for former ones, and looks whether what came for this one agrees.
  void begin();
  // Whether a pairwise message of this key has come or been announced.
  bool announced(const MessageKey& key) const { return early_[lane(key)].find(key) != nullptr; }

  // Read, or write, what can be; return whether anything moved or the stream was lost by it.
  bool read();
  bool flush();
  // Ends the stream for both sides, also where a forked child holds the descriptor too. Once lost.
  void close();
  bool pending() const { return outgoing_.pending(); }
  bool blocked() const { return outgoing_.blocked(); }

  // For the transport: whether it is in Shared::sending, and whether writability is being watched.
  bool listed = false;
  bool watching_writes = false;

 private:
  static size_t lane(const MessageKey& key) { return static_cast<size_t>(key.lane); }

  const char* accept(const Frame& frame, Destination* destination) override;
  void complete(const Frame& frame, const Destination& destination) override;

  const char* accept_eager(const Frame& frame, Destination* destination);
  const char* accept_announcement(const Frame& frame);
  const char* accept_ready(const Frame& frame);
  void accept_data(const Frame& frame, Destination* destination);
  void refused(KeyTable<Message>& table, const Frame& frame, bool sending);

  bool agrees(Message& message, uint64_t fingerprint, uint64_t bytes, bool sending);
  void mismatch(Message& message, uint64_t fingerprint, uint64_t bytes);
  void note_conflict(const MessageKey& key, uint64_t fingerprint);
  void note_sizes(const MessageKey& key, uint64_t gives, uint64_t takes, bool sending);
  bool stale(const MessageKey& key) const;
  bool current(const MessageKey& key) const;
  void destine(Message& message, Destination* destination);
  void send_control(const Frame& frame);
  void request(Message& message);
  void touch();
  void return_credit(uint64_t bytes);
  void release(Early* early);
  void drop_stale(KeyTable<Early>& table);
  void received(Message& message);
  void lose(StatusCode code, const std::string& how);

  const Rank peer_;
  base::Fd stream_;
  Shared& shared_;
  Outgoing outgoing_;
  Incoming incoming_;
  Status loss_;
  KeyTable<Message> sends_;  // announced; the peer is not ready yet
  KeyTable<Message> receives_;
  KeyTable<Early> early_[2];    // by lane: came or announced before the receive was posted
  KeyTable<Early> readies_[2];  // by lane: the peer is ready for what this rank has not posted
  uint64_t held_ = 0;           // of the window towards this rank: not yet given back
  uint64_t freed_ = 0;          // of `held_`: may be given back
};

}  // namespace regroup::transport::tcp
