// SPDX-License-Identifier: Apache-2.0
// Memory that peers on this host can map: memfd segments, and the process's register of them. Nothing here appears in
// /dev/shm; a segment goes when every mapping and descriptor of it has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "base/fd.h"
#include "regroup/status.h"

namespace regroup::transport::shm {

using SegmentId = uint64_t;  // unique in the process, never used twice; 0: none

// A segment of this process: mapped for reading and writing here, sealed so that others can map it for reading only and
// nobody can shrink it. All its pages are there.
class OwnedSegment : public std::enable_shared_from_this<OwnedSegment> {
 public:
  static Result<std::shared_ptr<OwnedSegment>> create(uint64_t bytes);
  ~OwnedSegment();
  OwnedSegment(const OwnedSegment&) = delete;
  OwnedSegment& operator=(const OwnedSegment&) = delete;

  SegmentId id() const { return id_; }
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  int descriptor() const { return fd_.get(); }

 private:
  OwnedSegment() = default;
  base::Fd fd_;
  SegmentId id_ = 0;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// A peer's segment, mapped for reading.
class MappedSegment {
 public:
  static Result<std::unique_ptr<MappedSegment>> map(const base::Fd& fd);
  ~MappedSegment();
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  MappedSegment() = default;
  const std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// All owned segments of the process, by address and by id. Thread safe. One a process, because memory is: an address is
// mapped or not whatever group asks.
class SegmentRegister {
 public:
  static SegmentRegister& of_process();

  struct Place {
    SegmentId id = 0;
    uint64_t offset = 0;
  };
  // Where [data, data + bytes) lies, if wholly inside one segment; id 0 otherwise.
  Place find(const void* data, uint64_t bytes) const;
  // The address and size of a segment of this process; nullptr if it has gone.
  std::byte* address(SegmentId id, uint64_t* bytes) const;
  // Keeps a segment of this process alive; nullptr if it has gone.
  std::shared_ptr<const OwnedSegment> hold(SegmentId id) const;
  // A duplicate of the descriptor; invalid if the segment has gone.
  base::Fd duplicate(SegmentId id) const;

  // Calls `freed` with each segment that goes, from the thread that lets it go. Returns a ticket for `unsubscribe`,
  // after which it is not called any more.
  uint64_t subscribe(std::function<void(SegmentId)> freed);
  void unsubscribe(uint64_t ticket);

 private:
  friend class OwnedSegment;
  SegmentId add(const std::shared_ptr<OwnedSegment>& segment);
  void remove(SegmentId id);
  void lock_all();
  void unlock_all();
  void unlock_in_child();

  struct Entry {
    SegmentId id;
    uint64_t bytes;
    int fd;
    std::weak_ptr<const OwnedSegment> segment;
  };
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Entry> by_address_;
  std::map<SegmentId, const std::byte*> by_id_;
  SegmentId next_ = 1;
  std::mutex listeners_mutex_;
  std::map<uint64_t, std::function<void(SegmentId)>> listeners_;
  uint64_t next_ticket_ = 1;
};

}  // namespace regroup::transport::shm
