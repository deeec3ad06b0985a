// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/numa.h"
#include "regroup/memory.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace regroup::transport::shm {

namespace {

Status refused(const char* what, uint64_t bytes) {
  const int error = errno;
  const bool shortage = error == ENOSPC || error == ENOMEM || error == EMFILE || error == ENFILE;
  return Status(shortage ? StatusCode::resource_exhausted : StatusCode::io_error,
                "shared memory of " + std::to_string(bytes) + " bytes: " + what + ": " + std::strerror(error));
}

// Gives the file all its pages. A signal makes the kernel undo what a call has done so far, and a call takes
// milliseconds: a timer that is quick enough would keep it from ever ending. So signals wait, a piece at a time.
bool reserve(int fd, uint64_t bytes) {
  constexpr uint64_t kPiece = 16 << 20;
  sigset_t all, before;
  sigfillset(&all);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min(kPiece, bytes - done);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(piece));
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    if (failed == 0) {
      done += piece;
    } else if (error != EINTR) {
      return false;
    }
  }
  return true;
}

// Before the file has pages: they shall be near this thread, which is most likely the one that will write them. What is
// asked for through a mapping stays with the file when the mapping goes.
void place(int fd, uint64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return;
  base::prefer_own_node(data, bytes);
  munmap(data, bytes);
}

}  // namespace

Result<std::shared_ptr<OwnedSegment>> OwnedSegment::create(uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > (1ull << 62)) {
    return Status(StatusCode::invalid_argument,
                  "shared memory of " + std::to_string(bytes) + " bytes is beyond any machine");
  }
  const uint64_t rounded = bytes == 0 ? page : (bytes + page - 1) / page * page;
  std::shared_ptr<OwnedSegment> segment(new OwnedSegment);
  segment->fd_ = base::Fd(memfd_create("regroup", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment->fd_.valid()) return refused("memfd_create", rounded);
  const int fd = segment->fd_.get();
  if (ftruncate(fd, static_cast<off_t>(rounded)) != 0) return refused("ftruncate", rounded);
  if (base::memory_nodes() > 1) place(fd, rounded);
  // All pages now: a full machine is an error here and not a signal later.
  if (!reserve(fd, rounded)) return refused("fallocate", rounded);
  void* data = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) return refused("mmap", rounded);
  segment->data_ = static_cast<std::byte*>(data);
  segment->bytes_ = rounded;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0) {
    return refused("sealing (Linux 5.1 or later is needed)", rounded);
  }
  segment->id_ = SegmentRegister::of_process().add(segment);
  return segment;
}

OwnedSegment::~OwnedSegment() {
  if (id_ != 0) SegmentRegister::of_process().remove(id_);
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<std::unique_ptr<MappedSegment>> MappedSegment::map(const base::Fd& fd) {
  struct stat about;
  if (fstat(fd.get(), &about) != 0) return refused("fstat", 0);
  // Without the seal, the owner could shrink it under us, and a read would be a SIGBUS.
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(StatusCode::io_error, "a peer passed a descriptor that is not a sealed segment");
  }
  std::unique_ptr<MappedSegment> segment(new MappedSegment);
  segment->bytes_ = static_cast<uint64_t>(about.st_size);
  void* data = mmap(nullptr, segment->bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (data == MAP_FAILED) return refused("mmap of a peer's segment", segment->bytes_);
  segment->data_ = static_cast<const std::byte*>(data);
  return segment;
}

MappedSegment::~MappedSegment() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
}

SegmentRegister& SegmentRegister::of_process() {
  // Never destroyed: allocations may outlive static destruction. A fork waits until the locks are free, since nobody in
  // the child would free them.
  static SegmentRegister* instance = [] {
    ::pthread_atfork([] { of_process().lock_all(); }, [] { of_process().unlock_all(); },
                     [] { of_process().unlock_in_child(); });
    return new SegmentRegister;
  }();
  return *instance;
}

void SegmentRegister::lock_all() {
  listeners_mutex_.lock();
  mutex_.lock();
}

void SegmentRegister::unlock_all() {
  mutex_.unlock();
  listeners_mutex_.unlock();
}

SegmentRegister::Place SegmentRegister::find(const void* data, uint64_t bytes) const {
  const std::byte* at = static_cast<const std::byte*>(data);
  std::shared_lock lock(mutex_);
  auto after = by_address_.upper_bound(at);
  if (after == by_address_.begin()) return {};
  const auto& [begin, entry] = *--after;
  const uint64_t offset = static_cast<uint64_t>(at - begin);
  if (offset > entry.bytes || bytes > entry.bytes - offset) return {};
  return {entry.id, offset};
}

std::byte* SegmentRegister::address(SegmentId id, uint64_t* bytes) const {
  std::shared_lock lock(mutex_);
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return nullptr;
  *bytes = by_address_.at(known->second).bytes;
  return const_cast<std::byte*>(known->second);
}

std::shared_ptr<const OwnedSegment> SegmentRegister::hold(SegmentId id) const {
  std::shared_lock lock(mutex_);
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? nullptr : by_address_.at(known->second).segment.lock();
}

base::Fd SegmentRegister::duplicate(SegmentId id) const {
  std::shared_lock lock(mutex_);
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return base::Fd();
  return base::Fd(fcntl(by_address_.at(known->second).fd, F_DUPFD_CLOEXEC, 0));
}

uint64_t SegmentRegister::subscribe(std::function<void(SegmentId)> freed) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.emplace(next_ticket_, std::move(freed));
  return next_ticket_++;
}

void SegmentRegister::unsubscribe(uint64_t ticket) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.erase(ticket);
}

void SegmentRegister::unlock_in_child() {
  new (&mutex_) std::shared_mutex;  // it knows its holder by a thread id, which is another one here
  listeners_mutex_.unlock();
}

SegmentId SegmentRegister::add(const std::shared_ptr<OwnedSegment>& segment) {
  std::unique_lock lock(mutex_);
  const SegmentId id = next_++;
  by_address_.emplace(segment->data(), Entry{id, segment->bytes(), segment->descriptor(), segment});
  by_id_.emplace(id, segment->data());
  return id;
}

void SegmentRegister::remove(SegmentId id) {
  {
    std::unique_lock lock(mutex_);
    const auto known = by_id_.find(id);
    by_address_.erase(known->second);
    by_id_.erase(known);
  }
  std::lock_guard lock(listeners_mutex_);
  for (const auto& [ticket, freed] : listeners_) freed(id);
}

}  // namespace regroup::transport::shm

namespace regroup {

struct Allocation::State {
  std::shared_ptr<transport::shm::OwnedSegment> segment;
};

Allocation::Allocation(std::shared_ptr<State> state)
    : state_(std::move(state)), data_(state_->segment->data()), bytes_(state_->segment->bytes()) {}

Result<Allocation> allocate(uint64_t bytes) {
  auto segment = transport::shm::OwnedSegment::create(bytes);
  if (!segment.ok()) return segment.status();
  return Allocation(std::make_shared<Allocation::State>(Allocation::State{std::move(segment).value()}));
}

}  // namespace regroup
