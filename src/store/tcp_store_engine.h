// SPDX-License-Identifier: Apache-2.0
// What a TCP store does with the bytes of its clients. No sockets, threads or clock: bytes go in, replies pile up for
// each client. Whatever a client sends, only that client is closed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/table.h"
#include "store/tcp_wire.h"

namespace regroup::store {

class TcpStoreEngine {
 public:
  using Client = uint64_t;
  // A command longer than this in all, or a reply, closes the client.
  static constexpr size_t kMaxCommandBytes = 128 << 20;
  static constexpr size_t kMaxReplyBytes = 256 << 20;

  void connect(Client client);
  // Forgets the client, its waits included.
  void disconnect(Client client);

  // Does what the bytes complete; replies may pile up for other clients too.
  void receive(Client client, std::string_view bytes);

  // Replies not yet sent; the caller erases what it has written.
  std::string& output(Client client) { return sessions_.at(client).output; }
  // The client broke the rules: close it, once its output is written or cannot be.
  bool finished(Client client) const { return sessions_.at(client).finished; }
  // Whether the client has spoken this protocol yet.
  bool introduced(Client client) const { return sessions_.at(client).dialect != Dialect::unknown; }

  // The clients whose output or `finished` may have changed since the last call.
  std::vector<Client> take_touched();

 private:
  // `early` is torch 1.13's: no validation and other opcodes.
  enum class Dialect : uint8_t { unknown, current, early };

  struct Session {
    Dialect dialect = Dialect::unknown;
    std::string input;
    size_t needed = 0;  // of input, before parsing it again can get further
    std::string output;
    bool finished = false;
    bool waiting = false;           // in a wait or a barrier: only cancel_wait is taken
    std::set<std::string> missing;  // the keys waited for
    std::string barrier;            // or the barrier waited in
  };

  void run(Client client, Session& session);
  bool introduce(Session& session, WireReader& reader);
  bool step(Client client, Session& session, WireReader& reader);
  bool execute(Opcode opcode, Client client, Session& session, WireReader& reader);
  bool execute_queue_or_group(Opcode opcode, Client client, Session& session, WireReader& reader);

  // Each reads its arguments, and acts only when the reader is still good. False: close the client.
  bool set(WireReader& reader, bool append);
  bool compare_set(Session& session, WireReader& reader);
  bool get(Session& session, WireReader& reader);
  bool add(Session& session, WireReader& reader);
  bool check(Session& session, WireReader& reader);
  bool wait(Client client, Session& session, WireReader& reader);
  bool delete_key(Session& session, WireReader& reader);
  bool multi_get(Session& session, WireReader& reader);
  bool multi_set(WireReader& reader);
  bool cancel_wait(Client client, Session& session);
  bool queue_push(WireReader& reader);
  bool queue_pop(Session& session, WireReader& reader);
  bool queue_length(Session& session, WireReader& reader);
  bool list_keys(Session& session);
  bool barrier(Client client, Session& session, WireReader& reader);

  bool there(const std::string& key) const;
  void stop_waiting(Client client, Session& session);
  void release(Client client, Session& session);
  void key_came(const std::string& key, bool wake_all);
  static void reply(Session& session, WireWriter& writer) { session.output += writer.data(); }

  Table table_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
  std::unordered_map<std::string, std::deque<Client>> waiters_;    // by key
  std::unordered_map<std::string, std::vector<Client>> barriers_;  // who has come
  std::unordered_map<Client, Session> sessions_;
  std::set<Client> touched_;
  std::vector<Client> released_;  // may have more input to act on
};

}  // namespace regroup::store
