// SPDX-License-Identifier: Apache-2.0
// How members meet: everyone tells where it is (a Contact), all connect with all, ranks of one host pass each other the
// descriptors of their control segments, try whether they can read each other's memory, and agree on the answer.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "backend/native/contact.h"
#include "backend/native/native_backend.h"
#include "base/hash.h"
#include "net/address.h"
#include "net/mesh.h"
#include "transport/tcp/tcp.h"

namespace regroup::backend::native {

namespace {

constexpr uint64_t kBell = 0;  // the id under which a bell's descriptor travels; segments count from 1

}  // namespace

// One joining; its steps in the order in which `run` calls them.
class NativeBackend::Joining {
 public:
  Joining(const NativeOptions& options, const Exchange& exchange)
      : options_(options),
        exchange_(exchange),
        deadline_(base::deadline_after(options.timeout)),
        backend_(new NativeBackend(options)) {}

  Result<std::shared_ptr<Backend>> run() {
    using Step = Status (Joining::*)();
    for (const Step step : {&Joining::open, &Joining::meet, &Joining::connect, &Joining::share, &Joining::agree}) {
      if (Status status = (this->*step)(); !status.ok()) return status;
    }
    finish();
    if (options_.library != nullptr) {
      if (Status status = backend_->open_library(deadline_, all_share_ ? "" : address_); !status.ok()) return status;
    }
    return std::shared_ptr<Backend>(backend_.release(), &NativeBackend::let_go);
  }

 private:
  // Descriptors that come while joining, before the transport can take them. Shared with the service thread, which may
  // still look at it when joining is over.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    struct Came {
      Rank from;
      uint64_t id;
      base::Fd fd;
    };
    std::vector<Came> came;
    std::vector<Rank> gone;
    bool open = true;

    bool keep(Rank from, std::span<const std::byte> payload, base::Fd* fd) {
      std::lock_guard lock(mutex);
      uint64_t id = 0;
      if (!open || payload.size() < sizeof id || came.size() > (1u << 16)) return false;
      std::memcpy(&id, payload.data(), sizeof id);
      came.push_back({from, id, std::move(*fd)});
      changed.notify_all();
      return true;
    }
    void lost(Rank peer) {
      std::lock_guard lock(mutex);
      gone.push_back(peer);
      changed.notify_all();
    }
    void close() {
      std::lock_guard lock(mutex);
      open = false;
      came.clear();
    }
  };

  bool alone() const { return options_.size == 1; }

  Status open() {
    auto waker = net::Waker::create();
    if (!waker.ok()) return waker.status();
    backend_->waker_ = std::move(waker).value();
    backend_->probe_word_ = mine_.probe_word = random_word();
    mine_.probe = reinterpret_cast<uint64_t>(&backend_->probe_word_);
    mine_.nonce = random_word();
    mine_.epoch = options_.previous_epoch;
    mine_.host = host_identity(options_.host_label);
    mine_.machine = host_identity("");
    mine_.wires = static_cast<int>(options_.wires);
    if (options_.library != nullptr) mine_.library = options_.library->name();
    mine_.selection = algorithms::selection_hash(options_.tuning.get());
    mine_.pid = getpid();
    mine_.process = transport::shm::process_token();
    mine_.bell = backend_->waker_.bell();
    if (options_.wires != Wires::tcp && options_.cross_process_reads) allow_reads_by_peers();
    if (alone()) return Status();
    auto host = net::host_address(options_.interface, options_.towards);
    if (!host.ok()) return host.status();
    auto listener = net::Listener::open(*host, true);
    if (!listener.ok()) return listener.status();
    listener_.emplace(std::move(listener).value());
    address_ = *host;
    mine_.tcp = net::format_host_port(*host, listener_->port());
    mine_.unix_name = listener_->unix_name();
    return Status();
  }

  // Contacts are told before it is known who is local, so the control segment is made first; it goes again where nobody
  // is.
  Status meet() {
    if (options_.wires != Wires::tcp) {
      transport::shm::ShmOptions shm;
      shm.rank = options_.rank;
      shm.size = options_.size;
      shm.local.assign(options_.size, true);  // who really is, `share` says
      shm.waker = &backend_->waker_;
      NativeBackend* backend = backend_.get();
      shm.want = [backend](Rank peer, transport::shm::SegmentId segment) {
        std::byte payload[sizeof segment];
        std::memcpy(payload, &segment, sizeof segment);
        backend->control_->send(peer, net::ControlKind::descriptor_wanted, payload);
      };
      auto made = transport::shm::ShmTransport::create(std::move(shm));
      if (!made.ok()) return made.status();
      backend_->shm_ = std::move(made).value();
      mine_.segment = backend_->shm_->control().id();
    }
    backend_->facts_.epoch = mine_.epoch + 1;
    if (alone()) {
      contacts_ = {mine_};
      return Status();
    }
    auto texts = exchange_(mine_.to_text(), deadline_);
    if (!texts.ok()) return texts.status();
    std::string all;
    for (Rank rank = 0; rank < options_.size; ++rank) {
      Contact contact;
      const std::string& text = (*texts)[rank];
      const std::string who = "rank " + std::to_string(rank);
      if (!Contact::parse(text, &contact))
        return Status(StatusCode::io_error, who + " published no contact: \"" + text + "\"", {rank});
      if (contact.version != kWireVersion) {
        return Status(StatusCode::io_error,
                      who + " runs another version of regroup: wire version " + std::to_string(contact.version) +
                          ", here " + std::to_string(kWireVersion),
                      {rank});
      }
      if (contact.selection != mine_.selection) {
        return Status(StatusCode::invalid_argument,
                      who + " would choose algorithms by another table than this rank: REGROUP_TUNING (or " +
                          "JoinOptions::tuning) must lead all ranks to the same rows",
                      {rank});
      }
      if (contact.wires != mine_.wires) {
        return Status(StatusCode::invalid_argument, who + " asked for another transport than this rank", {rank});
      }
      if (contact.library != mine_.library) {
        return Status(StatusCode::invalid_argument,
                      who + " asked for another backend than this rank: " + told(contact.library) + ", here " +
                          told(mine_.library),
                      {rank});
      }
      backend_->facts_.epoch = std::max(backend_->facts_.epoch, contact.epoch + 1);
      contacts_.push_back(contact);
      all += text;
    }
    token_ = base::hash_bytes(all);
    return Status();
  }

  static std::string told(const std::string& library) { return library.empty() ? "native" : library; }

  bool shares(Rank rank) const { return options_.wires != Wires::tcp && contacts_[rank].host == mine_.host; }

  Status connect() {
    std::vector<uint32_t> hosts(options_.size);
    bool all_share = true;
    for (Rank rank = 0; rank < options_.size; ++rank) {
      Rank first = 0;
      while (contacts_[first].host != contacts_[rank].host) ++first;
      // Without shared memory, every rank stands alone.
      hosts[rank] = options_.wires == Wires::tcp ? rank : first;
      all_share &= shares(rank);
    }
    backend_->facts_.topology = plan::Topology(hosts);
    if (options_.wires == Wires::shm && !all_share) {
      return Status(StatusCode::unsupported, "transport \"shm\" was asked for, but the ranks are on several hosts");
    }
    all_share_ = all_share;
    // Before the control channel's thread looks at it.
    if (backend_->facts_.topology.hosts() == options_.size && !all_share) backend_->shm_ = nullptr;
    if (alone()) return Status();
    std::vector<net::MeshPeer> peers(options_.size);
    for (Rank rank = 0; rank < options_.size; ++rank) {
      peers[rank] = {contacts_[rank].tcp, contacts_[rank].unix_name, contacts_[rank].host == mine_.host};
    }
    net::MeshOptions mesh;
    mesh.token = token_;
    mesh.lanes = {net::LaneKind::local_unix};
    if (!all_share) mesh.lanes.push_back(net::LaneKind::tcp);
    mesh.deadline = deadline_;
    mesh.interrupted = options_.interrupted;
    auto lanes = net::connect_mesh(*listener_, options_.rank, peers, mesh);
    if (!lanes.ok()) return lanes.status();
    if (!all_share) streams_ = std::move((*lanes)[1]);
    backend_->control_ = net::make_control(options_.rank, std::move((*lanes)[0]), options_.liveness);
    return Status();
  }

  // Ranks of one host pass each other their control segments and bells.
  Status share() {
    if (backend_->shm_ == nullptr) return start_control();
    backend_->shm_->set_local([&] {
      std::vector<bool> local(options_.size);
      for (Rank rank = 0; rank < options_.size; ++rank) local[rank] = shares(rank);
      return local;
    }());
    if (Status status = start_control(); !status.ok()) return status;
    for (Rank rank = 0; rank < options_.size; ++rank) {
      if (rank == options_.rank || !shares(rank) || contacts_[rank].process == mine_.process) continue;
      send_descriptor(rank, mine_.segment, backend_->shm_->control().descriptor());
      send_descriptor(rank, kBell, backend_->waker_.bell());
    }
    for (Rank rank = 0; rank < options_.size; ++rank) {
      if (rank == options_.rank || !shares(rank)) continue;
      const Contact& contact = contacts_[rank];
      base::Fd segment, bell;
      if (contact.process == mine_.process) {
        bell = base::Fd(fcntl(contact.bell, F_DUPFD_CLOEXEC, 0));
      } else if (Status status = await_descriptors(rank, contact.segment, &segment, &bell); !status.ok()) {
        return status;
      }
      const int pid = backend_->control_->pid_of(rank) > 0 ? backend_->control_->pid_of(rank) : contact.pid;
      if (Status status = backend_->shm_->attach(rank, pid, contact.process, contact.segment, segment, std::move(bell));
          !status.ok()) {
        return status;
      }
    }
    return Status();
  }

  Status start_control() {
    if (backend_->control_ == nullptr) return Status();
    NativeBackend* backend = backend_.get();
    backend_->control_->start(
        [backend, inbox = inbox_](Rank from, net::ControlKind kind, std::span<const std::byte> payload,
                                  base::Fd descriptor) {
          if (kind == net::ControlKind::descriptor && inbox->keep(from, payload, &descriptor)) return;
          backend->heard(from, kind, payload, std::move(descriptor));
        },
        [backend, inbox = inbox_](Rank peer, net::Ending ending) {
          inbox->lost(peer);
          backend->closed(peer, ending);
        });
    return Status();
  }

  void send_descriptor(Rank rank, uint64_t id, int descriptor) {
    std::byte payload[sizeof id];
    std::memcpy(payload, &id, sizeof id);
    backend_->control_->send(rank, net::ControlKind::descriptor, payload, descriptor);
  }

  Status await_descriptors(Rank rank, uint64_t segment, base::Fd* segment_fd, base::Fd* bell) {
    std::unique_lock lock(inbox_->mutex);
    while (true) {
      for (auto& [from, id, fd] : inbox_->came) {
        if (from != rank) continue;
        if (id == segment && !segment_fd->valid())
          *segment_fd = std::move(fd);
        else if (id == kBell && !bell->valid())
          *bell = std::move(fd);
      }
      if (segment_fd->valid() && bell->valid()) return Status();
      for (const Rank gone : inbox_->gone) {
        if (gone == rank)
          return Status(StatusCode::peer_lost, "rank " + std::to_string(rank) + " was lost while joining", {rank});
      }
      if (inbox_->changed.wait_until(lock, deadline_) == std::cv_status::timeout) {
        return Status(StatusCode::timeout,
                      "joining: rank " + std::to_string(rank) + " did not pass its shared memory in time", {rank});
      }
    }
  }

  // Reads of other processes' memory are used by all ranks or by none; and all have as many threads, because they cut
  // blocks by them.
  Status agree() {
    find_neighbours();
    bool allowed = options_.cross_process_reads;
    for (Rank rank = 0; rank < options_.size && allowed && backend_->shm_ != nullptr; ++rank) {
      if (rank == options_.rank || !shares(rank)) continue;
      allowed = backend_->shm_->probe(rank, contacts_[rank].probe, contacts_[rank].probe_word);
    }
    threads_ = options_.threads > 0 ? options_.threads
                                    : threads_for(usable_cores({}), cores_, neighbours_, executor::kMostThreads);
    if (alone()) return Status();
    auto verdicts = exchange_(Verdict{allowed, threads_}.to_text(), deadline_);
    if (!verdicts.ok()) return verdicts.status();
    for (Rank rank = 0; rank < options_.size; ++rank) {
      Verdict verdict;
      if (!Verdict::parse((*verdicts)[rank], &verdict)) {
        return Status(StatusCode::io_error,
                      "rank " + std::to_string(rank) + " published no verdict: \"" + (*verdicts)[rank] + "\"", {rank});
      }
      if (!verdict.reads) refused_.push_back(rank);
      threads_ = std::min(threads_, verdict.threads);
    }
    // From here on descriptors are the transport's affair.
    inbox_->close();
    return Status();
  }

  // Ranks on this machine, and the cores that they share.
  void find_neighbours() {
    std::vector<int> pids;
    for (const Contact& contact : contacts_) {
      if (contact.machine == mine_.machine) pids.push_back(contact.pid);
    }
    neighbours_ = static_cast<unsigned>(pids.size());
    cores_ = usable_cores(pids);
  }

  void finish() {
    NativeBackend& backend = *backend_;
    const bool reads = refused_.empty();
    if (backend.shm_ != nullptr) backend.shm_->set_cross_process_reads(reads);
    if (!all_share_) {
      transport::TcpOptions tcp;
      tcp.rank = options_.rank;
      tcp.size = options_.size;
      tcp.token = token_;
      tcp.epoch = static_cast<uint32_t>(backend.facts_.epoch);
      tcp.waker = &backend.waker_;
      tcp.streams = std::move(streams_);
      tcp.in_a_hurry = &backend.moves_on_;
      NativeBackend* raw = &backend;
      tcp.on_lost = [raw](Rank peer, Status status) { raw->stream_lost(peer, status); };
      tcp.on_late_conflict = [raw](Rank peer, uint64_t sequence) { raw->late_conflict(peer, sequence); };
      backend.tcp_ = transport::make_tcp_transport(std::move(tcp));
    }
    std::vector<bool> local(options_.size);
    for (Rank rank = 0; rank < options_.size; ++rank) local[rank] = shares(rank);
    if (all_share_) {
      backend.transport_ = backend.shm_.get();
    } else if (backend.shm_ != nullptr) {
      backend.mixed_ = std::make_unique<transport::MixedTransport>(*backend.shm_, *backend.tcp_, std::move(local));
      backend.transport_ = backend.mixed_.get();
    } else {
      backend.transport_ = backend.tcp_.get();
    }
    backend.all_local_ = all_share_;
    backend.facts_.one_sided_everywhere = all_share_ && reads;
    backend.facts_.one_sided_inside_hosts = backend.shm_ != nullptr && reads;
    backend.facts_.threads = threads_;
    backend.team_.emplace(threads_);
    backend.plans_ = PlanCache(backend.facts_);
    backend.oversubscribed_ = neighbours_ > cores_;
    if (backend.shm_ != nullptr) backend.shm_->set_lends(!backend.oversubscribed_);
    backend.description_ = "native over " + std::string(backend.transport_->name());
    if (threads_ > 1) backend.description_ += ", " + std::to_string(threads_) + " threads a rank";
    if (backend.shm_ != nullptr && !reads) {
      backend.description_ +=
          " (cross-process reads refused on rank " + std::to_string(refused_.front()) + ": messages in two copies)";
    }
    if (backend.shm_ != nullptr && !alone()) subscribe();
  }

  // Peers drop their mappings of memory that is freed here.
  void subscribe() {
    NativeBackend* backend = backend_.get();
    backend->freed_ticket_ =
        transport::shm::SegmentRegister::of_process().subscribe([backend](transport::shm::SegmentId segment) {
          std::byte payload[sizeof segment];
          std::memcpy(payload, &segment, sizeof segment);
          for (Rank rank = 0; rank < backend->facts_.size; ++rank) {
            if (rank != backend->facts_.rank && backend->facts_.topology.same_host(rank, backend->facts_.rank)) {
              backend->control_->send(rank, net::ControlKind::segment_freed, payload);
            }
          }
        });
  }

  const NativeOptions& options_;
  const Exchange& exchange_;
  base::Time deadline_;
  Contact mine_;
  std::vector<Contact> contacts_;
  std::optional<net::Listener> listener_;
  std::vector<base::Fd> streams_;
  std::string address_;  // of this host
  uint64_t token_ = 0;
  bool all_share_ = false;
  std::vector<Rank> refused_;
  unsigned neighbours_ = 1, cores_ = 1;
  unsigned threads_ = 1;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unique_ptr<NativeBackend> backend_;
};

Result<std::shared_ptr<Backend>> NativeBackend::join(const NativeOptions& options, const Exchange& exchange) {
  return Joining(options, exchange).run();
}

void NativeBackend::stream_lost(Rank peer, const Status& status) {
  stream_ended_[peer] = true;
  if (status.code() == StatusCode::io_error) break_group(status, true);
  alarm_.store(true, std::memory_order_release);
}

}  // namespace regroup::backend::native
