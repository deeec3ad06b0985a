// SPDX-License-Identifier: Apache-2.0
// A client of a TCP store. A connection carries one command at a time, so each call takes one from a small pool and
// dials another where all are taken: a call that waits never stands in another's way. Every change is confirmed (the
// format does not answer set, append and multi_set; a ping behind them does), so that what one call wrote the next one
// sees on any connection. Keys travel with a leading "/", as torch's do, so both see the same store.
#include "store/tcp_store_client.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <thread>

#include "base/fork.h"
#include "net/backoff.h"
#include "net/socket.h"
#include "store/table.h"
#include "store/tcp_wire.h"
#include "store/timeout.h"

namespace regroup::store {

namespace {

using Keys = std::vector<std::string>;

constexpr size_t kIdleConnections = 4;
constexpr uint64_t kMaxReplyBytes = uint64_t{1} << 30;  // of one value
constexpr size_t kReplyPiece = 1 << 20;                 // a value grows as it arrives, not as its length claims
constexpr auto kGreetingPatience = std::chrono::seconds(10);
constexpr auto kCancelPatience = std::chrono::seconds(1);
constexpr auto kRedialPatience = std::chrono::seconds(5);
constexpr size_t kKeysAskedFor = 64;  // to name the missing one of a wait

std::string on_wire(std::string_view key) { return std::string("/").append(key); }

// One connection: typed reads with the call's deadline; after the first failure it is of no more use.
class Connection {
 public:
  explicit Connection(base::Fd fd) : fd_(std::move(fd)) {}

  bool usable() const { return fd_.valid() && status_.ok(); }
  const Status& status() const { return status_; }
  void set_deadline(base::Time deadline) { deadline_ = deadline; }

  void send(const WireWriter& command) {
    if (!status_.ok()) return;
    status_ = net::send_all(fd_.get(), std::as_bytes(std::span(command.data())), deadline_);
  }

  template <typename T>
  T read() {
    T value{};
    if (status_.ok()) status_ = net::receive_all(fd_.get(), std::as_writable_bytes(std::span(&value, 1)), deadline_);
    return value;
  }

  std::string read_bytes() {
    const auto size = read<uint64_t>();
    if (status_.ok() && size > kMaxReplyBytes) {
      status_ = Status(StatusCode::io_error, "a reply claims " + std::to_string(size) + " bytes");
    }
    std::string value;
    while (status_.ok() && value.size() < size) {
      const size_t have = value.size();
      value.resize(std::min<uint64_t>(size, have + kReplyPiece));
      status_ = net::receive_all(fd_.get(), std::as_writable_bytes(std::span(value).subspan(have)), deadline_);
    }
    return value;
  }

  void expect(bool holds) {
    if (status_.ok() && !holds) status_ = Status(StatusCode::io_error, "a reply is not of this protocol");
  }

  // As read<uint8_t>, but a passed deadline leaves the connection usable: false.
  bool read_in_time(uint8_t* value) {
    *value = read<uint8_t>();
    if (status_.code() != StatusCode::timeout) return true;
    status_ = {};
    return false;
  }

 private:
  base::ProcessFd fd_;
  base::Time deadline_{};
  Status status_;
};

class TcpStore final : public Store {
 public:
  explicit TcpStore(net::HostPort where) : where_(std::move(where)) {}

  // Dials the first connection.
  Status open(base::Time deadline) {
    Result<std::unique_ptr<Connection>> first = dial(deadline);
    if (!first.ok()) return first.status();
    give_back(std::move(*first));
    return {};
  }

  Status set(std::string_view key, std::string_view value) override { return change(Opcode::set, key, value); }
  Status append(std::string_view key, std::string_view value) override { return change(Opcode::append, key, value); }
  Result<std::string> get(std::string_view key, Duration timeout) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  Result<bool> check(const Keys& keys) override;
  Status wait(const Keys& keys, Duration timeout) override;
  Result<bool> delete_key(std::string_view key) override;
  Result<int64_t> num_keys() override;
  Result<Keys> multi_get(const Keys& keys, Duration timeout) override;
  Status multi_set(const Keys& keys, const Keys& values) override;
  void set_timeout(Duration timeout) override { timeout_.set(timeout); }
  Duration timeout() const override { return timeout_.get(); }

 private:
  Result<std::unique_ptr<Connection>> dial(base::Time deadline);
  Status greet(Connection& connection, base::Time deadline);
  Result<std::unique_ptr<Connection>> take(base::Time deadline);
  void give_back(std::unique_ptr<Connection> connection);
  std::string name() const { return "the store at " + net::format_host_port(where_.host, where_.port); }

  // Runs `talk(connection)` on a connection of its own until `deadline`.
  template <typename Talk>
  Status exchange(base::Time deadline, const Talk& talk);
  base::Time default_deadline() const { return base::deadline_after(timeout_.get()); }

  Status change(Opcode opcode, std::string_view key, std::string_view value);
  Status check_sizes(const Keys& keys) const;
  static Status check_sizes(std::string_view key, std::string_view value = {});
  template <typename Use>
  Status wait_then(const Keys& keys, Duration timeout, const Use& use);
  static bool all_came(Connection& connection, const Keys& keys, base::Time deadline);
  static std::string first_missing(Connection& connection, const Keys& keys);
  static void confirm(Connection& connection, WireWriter& command);

  const net::HostPort where_;
  DefaultTimeout timeout_;
  std::mutex mutex_;  // of the pool; held for moments
  std::vector<std::unique_ptr<Connection>> idle_;
};

uint32_t draw_nonce() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return static_cast<uint32_t>(random());
}

WireWriter command_with_keys(Opcode opcode, const Keys& keys) {
  WireWriter command;
  command.op(opcode).u64(keys.size());
  for (const std::string& key : keys) command.bytes(on_wire(key));
  return command;
}

// --- connections

Status TcpStore::greet(Connection& connection, base::Time deadline) {
  const uint32_t nonce = draw_nonce();
  connection.set_deadline(std::min(deadline, base::deadline_after(kGreetingPatience)));
  connection.send(WireWriter().op(Opcode::validate).u32(kValidateMagic).op(Opcode::ping).u32(nonce));
  const auto echo = connection.read<uint32_t>();
  connection.expect(echo == nonce);
  return connection.status();
}

Result<std::unique_ptr<Connection>> TcpStore::dial(base::Time deadline) {
  const base::Time start = base::Clock::now();
  for (net::Backoff backoff;;) {
    Result<base::Fd> fd = net::connect_tcp(where_.host, where_.port, deadline);
    if (!fd.ok()) return Status(fd.status().code(), name() + ": " + fd.status().message());
    auto connection = std::make_unique<Connection>(std::move(*fd));
    const Status status = greet(*connection, deadline);
    if (status.ok()) return connection;
    // A server that is just going down, or something else that took its port and will go.
    const base::Time now = base::Clock::now();
    if (now >= deadline) {
      const auto tried = std::chrono::duration_cast<std::chrono::milliseconds>(now - start).count();
      return Status(StatusCode::timeout,
                    name() + " is not one: something listens there but does not answer as a store " + "would (" +
                        status.message() + "); tried for " + std::to_string(tried) + " ms");
    }
    std::this_thread::sleep_until(std::min(deadline, base::deadline_after(backoff.next())));
  }
}

Result<std::unique_ptr<Connection>> TcpStore::take(base::Time deadline) {
  {
    const std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      if (connection->usable()) return connection;  // not so in the child of a fork
    }
  }
  // A call with a time-out of 0 still needs its connection; and a store that is gone does not come back with what it
  // held.
  const base::Time now = base::Clock::now();
  return dial(std::clamp(deadline, now + kCancelPatience, now + kRedialPatience));
}

void TcpStore::give_back(std::unique_ptr<Connection> connection) {
  if (!connection->usable()) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleConnections) idle_.push_back(std::move(connection));
}

template <typename Talk>
Status TcpStore::exchange(base::Time deadline, const Talk& talk) {
  Result<std::unique_ptr<Connection>> taken = take(deadline);
  if (!taken.ok()) return taken.status();
  std::unique_ptr<Connection> connection = std::move(*taken);
  connection->set_deadline(deadline);
  talk(*connection);
  const Status status = connection->status();
  give_back(std::move(connection));
  if (status.ok()) return status;
  return Status(status.code(), name() + ": " + status.message());
}

// --- commands

Status TcpStore::check_sizes(std::string_view key, std::string_view value) {
  if (key.size() + 1 > kMaxKeyBytes) {
    return Status(StatusCode::invalid_argument, "a key has at most " + std::to_string(kMaxKeyBytes - 1) +
                                                    " bytes, not " + std::to_string(key.size()));
  }
  if (value.size() > kMaxValueBytes) {
    return Status(StatusCode::invalid_argument, "a value has at most " + std::to_string(kMaxValueBytes) +
                                                    " bytes, not " + std::to_string(value.size()));
  }
  return {};
}

Status TcpStore::check_sizes(const Keys& keys) const {
  if (keys.size() > kMaxKeys) {
    return Status(StatusCode::invalid_argument,
                  "a call takes at most " + std::to_string(kMaxKeys) + " keys, not " + std::to_string(keys.size()));
  }
  for (const std::string& key : keys) {
    if (Status status = check_sizes(key); !status.ok()) return status;
  }
  return {};
}

// Sends a command that has no answer, and waits until it was carried out.
void TcpStore::confirm(Connection& connection, WireWriter& command) {
  const uint32_t nonce = draw_nonce();
  connection.send(command.op(Opcode::ping).u32(nonce));
  const auto echo = connection.read<uint32_t>();
  connection.expect(echo == nonce);
}

Status TcpStore::change(Opcode opcode, std::string_view key, std::string_view value) {
  if (Status status = check_sizes(key, value); !status.ok()) return status;
  return exchange(default_deadline(), [&](Connection& connection) {
    confirm(connection, WireWriter().op(opcode).bytes(on_wire(key)).bytes(value));
  });
}

Status TcpStore::multi_set(const Keys& keys, const Keys& values) {
  if (keys.size() != values.size()) return Store::multi_set(keys, values);  // which says what is wrong
  if (Status status = check_sizes(keys); !status.ok()) return status;
  WireWriter command;
  command.op(Opcode::multi_set).u64(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Status status = check_sizes(keys[i], values[i]); !status.ok()) return status;
    command.bytes(on_wire(keys[i])).bytes(values[i]);
  }
  return exchange(default_deadline(), [&](Connection& connection) { confirm(connection, command); });
}

Result<int64_t> TcpStore::add(std::string_view key, int64_t amount) {
  if (Status status = check_sizes(key); !status.ok()) return status;
  int64_t sum = 0;
  const Status status = exchange(default_deadline(), [&](Connection& connection) {
    connection.send(WireWriter().op(Opcode::add).bytes(on_wire(key)).i64(amount));
    sum = connection.read<int64_t>();
  });
  if (!status.ok()) return status;
  return sum;
}

Result<std::string> TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  for (const std::string_view value : {expected, desired}) {
    if (Status status = check_sizes(key, value); !status.ok()) return status;
  }
  std::string value;
  const Status status = exchange(default_deadline(), [&](Connection& connection) {
    connection.send(WireWriter().op(Opcode::compare_set).bytes(on_wire(key)).bytes(expected).bytes(desired));
    value = connection.read_bytes();
  });
  if (!status.ok()) return status;
  return value;
}

Result<bool> TcpStore::check(const Keys& keys) {
  if (keys.empty()) return true;
  if (Status status = check_sizes(keys); !status.ok()) return status;
  bool all = false;
  const Status status = exchange(default_deadline(), [&](Connection& connection) {
    connection.send(command_with_keys(Opcode::check, keys));
    const auto answer = connection.read<uint8_t>();
    connection.expect(answer == kReady || answer == kNotReady);
    all = answer == kReady;
  });
  if (!status.ok()) return status;
  return all;
}

Result<bool> TcpStore::delete_key(std::string_view key) {
  if (Status status = check_sizes(key); !status.ok()) return status;
  bool there = false;
  const Status status = exchange(default_deadline(), [&](Connection& connection) {
    connection.send(WireWriter().op(Opcode::delete_key).bytes(on_wire(key)));
    there = connection.read<int64_t>() > 0;
  });
  if (!status.ok()) return status;
  return there;
}

Result<int64_t> TcpStore::num_keys() {
  int64_t count = 0;
  const Status status = exchange(default_deadline(), [&](Connection& connection) {
    connection.send(WireWriter().op(Opcode::get_num_keys));
    count = connection.read<int64_t>();
  });
  if (!status.ok()) return status;
  return count;
}

// --- waiting

// Sends the wait and its cancellation at the deadline, so that the connection stays in step. True: the keys came.
bool TcpStore::all_came(Connection& connection, const Keys& keys, base::Time deadline) {
  connection.set_deadline(std::max(deadline, base::deadline_after(kCancelPatience)));
  connection.send(command_with_keys(Opcode::wait, keys));
  connection.set_deadline(deadline);
  uint8_t answer;
  if (connection.read_in_time(&answer)) {
    connection.expect(answer == kStopWaiting);
    return true;
  }
  connection.set_deadline(base::deadline_after(kCancelPatience));
  connection.send(WireWriter().op(Opcode::cancel_wait));
  answer = connection.read<uint8_t>();
  if (answer == kWaitCanceled) return false;
  // They came in the very moment; the cancellation is answered too.
  connection.expect(answer == kStopWaiting);
  const auto second = connection.read<uint8_t>();
  connection.expect(second == kWaitCanceled);
  return true;
}

std::string TcpStore::first_missing(Connection& connection, const Keys& keys) {
  for (size_t i = 0; i < std::min(keys.size(), kKeysAskedFor) && connection.usable(); ++i) {
    connection.send(command_with_keys(Opcode::check, {keys[i]}));
    if (connection.read<uint8_t>() == kNotReady) return keys[i];
  }
  return keys.front();
}

template <typename Use>
Status TcpStore::wait_then(const Keys& keys, Duration timeout, const Use& use) {
  if (Status status = check_sizes(keys); !status.ok()) return status;
  const Duration limit = timeout_.resolve(timeout);
  Status late;
  const base::Time deadline = base::deadline_after(limit);
  const Status status = exchange(deadline, [&](Connection& connection) {
    const bool came = all_came(connection, keys, deadline);
    if (!connection.usable()) return;
    // What is left to do takes one round trip.
    connection.set_deadline(base::deadline_after(std::max(timeout_.get(), Duration(kCancelPatience))));
    if (came) {
      use(connection);
    } else {
      late = not_set_in_time(first_missing(connection, keys), limit);
    }
  });
  if (!late.ok()) return late;
  if (status.code() != StatusCode::timeout) return status;
  late = not_set_in_time(keys.front(), limit);
  return Status(late.code(), late.message() + " as far as this rank can tell: " + status.message());
}

Status TcpStore::wait(const Keys& keys, Duration timeout) {
  if (keys.empty()) return {};
  return wait_then(keys, timeout, [](Connection&) {});
}

Result<std::string> TcpStore::get(std::string_view key, Duration timeout) {
  std::string value;
  const Status status = wait_then({std::string(key)}, timeout, [&](Connection& connection) {
    connection.send(WireWriter().op(Opcode::get).bytes(on_wire(key)));
    value = connection.read_bytes();
  });
  if (!status.ok()) return status;
  return value;
}

Result<Keys> TcpStore::multi_get(const Keys& keys, Duration timeout) {
  if (keys.empty()) return Keys();
  Keys values;
  const Status status = wait_then(keys, timeout, [&](Connection& connection) {
    connection.send(command_with_keys(Opcode::multi_get, keys));
    for (size_t i = 0; i < keys.size() && connection.usable(); ++i) values.push_back(connection.read_bytes());
  });
  if (!status.ok()) return status;
  return values;
}

}  // namespace

Result<std::shared_ptr<Store>> connect_tcp_store(const net::HostPort& where, base::Time deadline) {
  auto store = std::make_shared<TcpStore>(where);
  if (Status status = store->open(deadline); !status.ok()) return status;
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace regroup::store
