// SPDX-License-Identifier: Apache-2.0
#include "store/tcp_store_engine.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace regroup::store {

namespace {

std::vector<std::string> read_keys(WireReader& reader) {
  const uint64_t count = reader.count(kMaxKeys);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count && reader.good(); ++i) keys.emplace_back(reader.bytes(kMaxKeyBytes));
  return keys;
}

std::string read_key(WireReader& reader) { return std::string(reader.bytes(kMaxKeyBytes)); }

}  // namespace

void TcpStoreEngine::connect(Client client) { sessions_.try_emplace(client); }

void TcpStoreEngine::disconnect(Client client) {
  const auto at = sessions_.find(client);
  if (at == sessions_.end()) return;
  stop_waiting(client, at->second);
  sessions_.erase(at);
  touched_.erase(client);
}

std::vector<TcpStoreEngine::Client> TcpStoreEngine::take_touched() {
  std::vector<Client> clients(touched_.begin(), touched_.end());
  touched_.clear();
  return clients;
}

void TcpStoreEngine::receive(Client client, std::string_view bytes) {
  Session& session = sessions_.at(client);
  if (session.finished) return;
  session.input += bytes;
  run(client, session);
  // Those whose wait ended may have sent their next command already, which may end further waits.
  while (!released_.empty()) {
    const Client next = released_.back();
    released_.pop_back();
    run(next, sessions_.at(next));
  }
}

void TcpStoreEngine::run(Client client, Session& session) {
  touched_.insert(client);
  size_t done = 0;
  while (!session.finished && done < session.input.size()) {
    WireReader reader(std::string_view(session.input).substr(done));
    if (session.input.size() - done < session.needed) break;
    if (session.waiting && static_cast<Opcode>(session.input[done]) != Opcode::cancel_wait) break;
    session.needed = 0;
    const bool fine = session.dialect == Dialect::unknown ? introduce(session, reader) : step(client, session, reader);
    if (!fine || reader.state() == WireReader::State::beyond_limit) {
      session.finished = true;
    } else if (reader.state() == WireReader::State::incomplete) {
      session.needed = reader.needed();
      break;
    } else {
      done += reader.position();
    }
  }
  session.input.erase(0, done);
  if (session.needed > kMaxCommandBytes || session.input.size() > kMaxCommandBytes) session.finished = true;
  if (session.output.size() > kMaxReplyBytes) session.finished = true;
  if (!session.finished) return;
  stop_waiting(client, session);
  session.input = {};
}

// The first five bytes tell the dialects apart: an early client's set, opcode 0 too, would need a key of 1 GB to look
// alike.
bool TcpStoreEngine::introduce(Session& session, WireReader& reader) {
  WireReader ahead = reader;
  const uint8_t opcode = ahead.u8();
  if (opcode == 0) {
    const uint32_t magic = ahead.u32();
    if (!ahead.good() || magic == kValidateMagic) {
      reader = ahead;
      if (ahead.good()) session.dialect = Dialect::current;
      return true;
    }
  }
  if (opcode > 8) return false;
  session.dialect = Dialect::early;
  return true;
}

bool TcpStoreEngine::step(Client client, Session& session, WireReader& reader) {
  uint8_t code = reader.u8();
  if (session.dialect == Dialect::early) {
    // set … get_num_keys are one lower; 7 watches a key by callbacks, which no later client does; delete_key is the
    // same.
    if (code == 7 || code > 8) return false;
    if (code < 7) ++code;
  } else if (code == 0) {
    return reader.u32() == kValidateMagic || !reader.good();
  }
  return execute(static_cast<Opcode>(code), client, session, reader);
}

bool TcpStoreEngine::execute(Opcode opcode, Client client, Session& session, WireReader& reader) {
  switch (opcode) {
    case Opcode::set:
      return set(reader, false);
    case Opcode::append:
      return set(reader, true);
    case Opcode::compare_set:
      return compare_set(session, reader);
    case Opcode::get:
      return get(session, reader);
    case Opcode::add:
      return add(session, reader);
    case Opcode::check:
      return check(session, reader);
    case Opcode::wait:
      return wait(client, session, reader);
    case Opcode::get_num_keys:
      return reply(session, WireWriter().i64(static_cast<int64_t>(table_.all().size()))), true;
    case Opcode::delete_key:
      return delete_key(session, reader);
    case Opcode::multi_get:
      return multi_get(session, reader);
    case Opcode::multi_set:
      return multi_set(reader);
    case Opcode::cancel_wait:
      return cancel_wait(client, session);
    default:
      return execute_queue_or_group(opcode, client, session, reader);
  }
}

bool TcpStoreEngine::execute_queue_or_group(Opcode opcode, Client client, Session& session, WireReader& reader) {
  switch (opcode) {
    case Opcode::ping: {
      const uint32_t nonce = reader.u32();
      if (reader.good()) reply(session, WireWriter().u32(nonce));
      return true;
    }
    case Opcode::queue_push:
      return queue_push(reader);
    case Opcode::queue_pop:
      return queue_pop(session, reader);
    case Opcode::queue_length:
      return queue_length(session, reader);
    case Opcode::list_keys:
      return list_keys(session);
    case Opcode::barrier:
      return barrier(client, session, reader);
    default:
      return false;
  }
}

bool TcpStoreEngine::set(WireReader& reader, bool append) {
  const std::string key = read_key(reader);
  const std::string_view value = reader.bytes(kMaxValueBytes);
  if (!reader.good()) return true;
  if (append) {
    table_.append(key, value);
  } else {
    table_.set(key, value);
  }
  key_came(key, true);
  return true;
}

bool TcpStoreEngine::compare_set(Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  const std::string_view expected = reader.bytes(kMaxValueBytes), desired = reader.bytes(kMaxValueBytes);
  if (!reader.good()) return true;
  const Table::Comparison comparison = table_.compare(key, expected, desired);
  reply(session, WireWriter().bytes(comparison.value));
  if (!comparison.sets) return true;
  table_.set(key, desired);
  key_came(key, true);
  return true;
}

bool TcpStoreEngine::get(Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  if (!reader.good()) return true;
  const std::string* value = table_.find(key);
  if (value == nullptr && session.dialect == Dialect::early) return false;  // as its own server did
  reply(session, WireWriter().bytes(value != nullptr ? std::string_view(*value) : std::string_view()));
  return true;
}

bool TcpStoreEngine::add(Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  const int64_t amount = reader.i64();
  if (!reader.good()) return true;
  Result<int64_t> sum = table_.sum(key, amount);
  if (!sum.ok()) return false;  // the format has no words for it
  table_.set(key, std::to_string(*sum));
  reply(session, WireWriter().i64(*sum));
  key_came(key, true);
  return true;
}

bool TcpStoreEngine::check(Session& session, WireReader& reader) {
  const std::vector<std::string> keys = read_keys(reader);
  if (!reader.good()) return true;
  const bool all = std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return there(key); });
  reply(session, WireWriter().u8(all ? kReady : kNotReady));
  return true;
}

bool TcpStoreEngine::wait(Client client, Session& session, WireReader& reader) {
  const std::vector<std::string> keys = read_keys(reader);
  if (!reader.good()) return true;
  for (const std::string& key : keys) {
    if (!there(key) && session.missing.insert(key).second) waiters_[key].push_back(client);
  }
  session.waiting = !session.missing.empty();
  if (!session.waiting) reply(session, WireWriter().u8(kStopWaiting));
  return true;
}

bool TcpStoreEngine::delete_key(Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  if (reader.good()) reply(session, WireWriter().i64(table_.erase(key) ? 1 : 0));
  return true;
}

bool TcpStoreEngine::multi_get(Session& session, WireReader& reader) {
  const std::vector<std::string> keys = read_keys(reader);
  if (!reader.good()) return true;
  for (const std::string& key : keys) {
    const std::string* value = table_.find(key);
    reply(session, WireWriter().bytes(value != nullptr ? std::string_view(*value) : std::string_view()));
    if (session.output.size() > kMaxReplyBytes) return false;
  }
  return true;
}

bool TcpStoreEngine::multi_set(WireReader& reader) {
  const uint64_t count = reader.count(kMaxKeys);
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (uint64_t i = 0; i < count && reader.good(); ++i) {
    const std::string_view key = reader.bytes(kMaxKeyBytes);
    pairs.emplace_back(key, reader.bytes(kMaxValueBytes));
  }
  if (!reader.good()) return true;
  for (const auto& [key, value] : pairs) {
    table_.set(key, value);
    key_came(std::string(key), true);
  }
  return true;
}

bool TcpStoreEngine::cancel_wait(Client client, Session& session) {
  stop_waiting(client, session);
  reply(session, WireWriter().u8(kWaitCanceled));
  return true;
}

bool TcpStoreEngine::queue_push(WireReader& reader) {
  const std::string key = read_key(reader);
  const std::string_view value = reader.bytes(kMaxValueBytes);
  if (!reader.good()) return true;
  queues_[key].emplace_back(value);
  key_came(key, false);
  return true;
}

bool TcpStoreEngine::queue_pop(Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  if (!reader.good()) return true;
  const auto at = queues_.find(key);
  if (at == queues_.end()) return reply(session, WireWriter().i64(0)), true;
  reply(session, WireWriter().i64(static_cast<int64_t>(at->second.size())).bytes(at->second.front()));
  at->second.pop_front();
  if (at->second.empty()) queues_.erase(at);
  return true;
}

bool TcpStoreEngine::queue_length(Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  if (!reader.good()) return true;
  const auto at = queues_.find(key);
  reply(session, WireWriter().i64(at == queues_.end() ? 0 : static_cast<int64_t>(at->second.size())));
  return true;
}

bool TcpStoreEngine::list_keys(Session& session) {
  WireWriter writer;
  writer.i64(static_cast<int64_t>(table_.all().size()));
  for (const auto& [key, value] : table_.all()) writer.bytes(key);
  reply(session, writer);
  return true;
}

// A client that gives up waiting no longer counts (torch's own server goes on counting it).
bool TcpStoreEngine::barrier(Client client, Session& session, WireReader& reader) {
  const std::string key = read_key(reader);
  const int64_t world = reader.i64();
  if (!reader.good()) return true;
  if (world < 1) return false;
  std::vector<Client>& come = barriers_[key];
  come.push_back(client);
  session.waiting = true;
  session.barrier = key;
  if (static_cast<int64_t>(come.size()) < world) return true;
  const std::vector<Client> all = std::move(come);
  barriers_.erase(key);
  for (const Client member : all) release(member, sessions_.at(member));
  return true;
}

// A queue with something in it counts as a key.
bool TcpStoreEngine::there(const std::string& key) const {
  return table_.find(key) != nullptr || queues_.find(key) != queues_.end();
}

void TcpStoreEngine::stop_waiting(Client client, Session& session) {
  if (!session.waiting) return;
  session.waiting = false;
  for (const std::string& key : std::exchange(session.missing, {})) {
    const auto at = waiters_.find(key);
    REGROUP_ASSERT(at != waiters_.end());
    std::erase(at->second, client);
    if (at->second.empty()) waiters_.erase(at);
  }
  const auto at = barriers_.find(std::exchange(session.barrier, {}));
  if (at == barriers_.end()) return;
  std::erase(at->second, client);
  if (at->second.empty()) barriers_.erase(at);
}

// Answers a wait or barrier that is over.
void TcpStoreEngine::release(Client client, Session& session) {
  session.waiting = false;
  session.barrier.clear();
  reply(session, WireWriter().u8(kStopWaiting));
  touched_.insert(client);
  released_.push_back(client);
}

// Tells all who wait for the key, or the one who waits longest.
void TcpStoreEngine::key_came(const std::string& key, bool wake_all) {
  const auto at = waiters_.find(key);
  if (at == waiters_.end()) return;
  const size_t count = wake_all ? at->second.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const Client client = at->second.front();
    at->second.pop_front();
    Session& session = sessions_.at(client);
    session.missing.erase(key);
    if (session.missing.empty()) release(client, session);
  }
  if (at->second.empty()) waiters_.erase(at);
}

}  // namespace regroup::store
