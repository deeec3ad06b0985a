// SPDX-License-Identifier: Apache-2.0
// The sockets of a TCP store: one thread, many clients. What the bytes mean is the engine's business.
#include "store/tcp_store_server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <deque>
#include <thread>
#include <unordered_map>

#include "base/fork.h"
#include "base/system_error.h"
#include "net/poller.h"
#include "net/socket.h"
#include "store/tcp_store_engine.h"

namespace regroup::store {

namespace {

using Client = TcpStoreEngine::Client;

constexpr uint64_t kBell = 0, kListener = 1, kFirstClient = 2;
constexpr auto kSilence = std::chrono::seconds(7);  // of a client's host: then its connection ends
// A connection that has not spoken the protocol by then is dropped.
constexpr auto kIntroductionPatience = std::chrono::seconds(10);
constexpr int kReadsATurn = 16;  // of 64 KB; then the other clients have theirs

class Server final : public StoreServer {
 public:
  explicit Server(std::string address, base::Fd listener)
      : address_(std::move(address)), listener_(std::move(listener)) {}
  ~Server() override;

  Status start();
  std::string address() const override { return address_; }

 private:
  void run();
  base::Time handle_timers();
  void accept_all();
  void handle(Client client, uint32_t events);
  bool read(Client client);
  void flush_touched();
  bool flush(Client client);
  void close(Client client);

  const std::string address_;
  const uint64_t generation_ = base::fork_generation();
  base::ProcessFd listener_;
  base::ProcessFd epoll_;
  base::ProcessFd bell_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<std::thread> thread_;

  // The thread's alone.
  TcpStoreEngine engine_;
  std::unordered_map<Client, base::ProcessFd> clients_;
  std::deque<std::pair<base::Time, Client>> newcomers_;  // by when they must have introduced themselves
  Client next_client_ = kFirstClient;
  base::Time accept_again_{};  // descriptors ran out: not before then
  std::array<char, 64 * 1024> buffer_;
};

Status Server::start() {
  Result<base::Fd> epoll = net::make_epoll();
  if (!epoll.ok()) return epoll.status();
  Result<base::Fd> bell = net::make_bell();
  if (!bell.ok()) return bell.status();
  epoll_ = base::ProcessFd(std::move(*epoll));
  bell_ = base::ProcessFd(std::move(*bell));
  if (Status status = net::epoll_watch(epoll_.get(), bell_.get(), EPOLLIN, kBell); !status.ok()) return status;
  if (Status status = net::epoll_watch(epoll_.get(), listener_.get(), EPOLLIN, kListener); !status.ok()) return status;
  // The application's signals are not for this thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = std::make_unique<std::thread>([this] { run(); });
    ::pthread_setname_np(thread_->native_handle(), "regroup-store");
  } catch (const std::system_error& error) {
    status = Status(StatusCode::resource_exhausted, std::string("cannot start a thread: ") + error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

Server::~Server() {
  if (thread_ == nullptr) return;
  if (generation_ != base::fork_generation()) {
    static_cast<void>(thread_.release());  // the child of a fork has no such thread to join
    return;
  }
  stopping_ = true;
  net::ring_bell(bell_.get());
  thread_->join();
}

void Server::run() {
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const base::Time wake = handle_timers();
    const int ready = net::epoll_wait_until(epoll_.get(), events, wake);
    for (int i = 0; i < ready && !stopping_; ++i) {
      if (events[i].data.u64 == kListener) accept_all();
      if (events[i].data.u64 >= kFirstClient) handle(events[i].data.u64, events[i].events);
    }
  }
}

base::Time Server::handle_timers() {
  const base::Time now = base::Clock::now();
  base::Time next = now + std::chrono::hours(1);
  while (!newcomers_.empty()) {
    const auto [due, client] = newcomers_.front();
    const bool waited_for = clients_.contains(client) && !engine_.introduced(client);
    if (waited_for && due > now) {
      next = due;
      break;
    }
    newcomers_.pop_front();
    if (waited_for) close(client);
  }
  if (accept_again_ == base::Time()) return next;
  if (accept_again_ > now) return std::min(next, accept_again_);
  accept_again_ = {};
  if (net::epoll_watch(epoll_.get(), listener_.get(), EPOLLIN, kListener).ok()) return next;
  accept_again_ = now + std::chrono::milliseconds(50);
  return std::min(next, accept_again_);
}

void Server::accept_all() {
  for (int budget = 256; budget > 0; --budget) {
    bool exhausted = false;
    base::Fd fd = net::accept_one(listener_.get(), &exhausted);
    if (!fd.valid()) {
      if (!exhausted) return;
      net::epoll_forget(epoll_.get(), listener_.get());
      accept_again_ = base::deadline_after(std::chrono::milliseconds(50));
      return;
    }
    const Client client = next_client_++;
    if (!net::epoll_watch(epoll_.get(), fd.get(), EPOLLIN, client).ok()) continue;
    net::keep_alive(fd.get(), kSilence);
    clients_.emplace(client, std::move(fd));
    engine_.connect(client);
    newcomers_.emplace_back(base::deadline_after(kIntroductionPatience), client);
  }
}

void Server::handle(Client client, uint32_t events) {
  if (!clients_.contains(client)) return;  // closed earlier in this round
  bool alive = true;
  // While a reply is not written nothing more is read, so only a hang-up can come besides.
  if ((events & EPOLLOUT) != 0) {
    alive = flush(client);
  } else if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
    alive = read(client);
  }
  if (!alive) close(client);
  flush_touched();
}

// False: the connection ended.
bool Server::read(Client client) {
  for (int turn = 0; turn < kReadsATurn; ++turn) {
    const ssize_t got = ::recv(clients_.at(client).get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    engine_.receive(client, std::string_view(buffer_.data(), static_cast<size_t>(got)));
    if (engine_.finished(client) || !engine_.output(client).empty()) return true;
    if (static_cast<size_t>(got) < buffer_.size()) return true;
  }
  return true;
}

void Server::flush_touched() {
  for (const Client client : engine_.take_touched()) {
    if (!flush(client) || engine_.finished(client)) close(client);
  }
}

// Writes what the socket takes. False: the connection is broken.
bool Server::flush(Client client) {
  std::string& output = engine_.output(client);
  const int fd = clients_.at(client).get();
  size_t written = 0;
  while (written < output.size()) {
    const ssize_t sent = ::send(fd, output.data() + written, output.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return false;
    written += static_cast<size_t>(sent);
  }
  output.erase(0, written);
  return net::epoll_watch(epoll_.get(), fd, output.empty() ? EPOLLIN : EPOLLOUT, client).ok();
}

void Server::close(Client client) {
  engine_.disconnect(client);
  clients_.erase(client);
}

}  // namespace

Result<std::shared_ptr<StoreServer>> serve_tcp_store(const net::HostPort& where) {
  const bool as_it_is = where.host == "localhost" || net::is_numeric(where.host);
  Result<base::Fd> listener = net::listen_tcp(as_it_is ? where.host : "", where.port);
  if (!listener.ok()) return listener.status();
  std::string host = where.host;
  if (host == "0.0.0.0" || host == "::") {
    Result<std::string> own = net::host_address("", "");
    if (!own.ok()) return own.status();
    host = *own;
  }
  const uint16_t port = net::local_port(listener->get());
  auto server = std::make_shared<Server>(net::format_host_port(host, port), std::move(*listener));
  if (Status status = server->start(); !status.ok()) return status;
  return std::shared_ptr<StoreServer>(std::move(server));
}

}  // namespace regroup::store
