// SPDX-License-Identifier: Apache-2.0
// A hash table of pointers to things that have a MessageKey `key`. It owns nothing, allocates only to grow, and never
// shrinks, so that a steady load costs no allocation. Linear probing; erasing moves followers back.
#pragma once

#include <vector>

#include "base/assert.h"
#include "base/hash.h"
#include "transport/message.h"

namespace regroup::transport::tcp {

inline uint64_t hash(const MessageKey& key) {
  const uint64_t lane_and_tag = static_cast<uint64_t>(key.lane) << 32 | key.tag;
  return base::mix(base::mix(key.sequence, key.number), lane_and_tag);
}

template <typename T>
class KeyTable {
 public:
  size_t size() const { return used_; }

  T* find(const MessageKey& key) const {
    if (used_ == 0) return nullptr;
    return slots_[locate(key, hash(key))].value;
  }

  // Nothing of this key may be there.
  void insert(T& value) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    const uint64_t hashed = hash(value.key);
    Slot& slot = slots_[locate(value.key, hashed)];
    REGROUP_ASSERT(slot.value == nullptr);
    slot = {hashed, &value};
    ++used_;
  }

  // Whether it was there.
  bool erase(const T& value) {
    if (used_ == 0) return false;
    const size_t at = locate(value.key, hash(value.key));
    if (slots_[at].value != &value) return false;
    erase_at(at);
    return true;
  }

  // Erases what `visit(T&)` returns true for; may visit some twice, and must itself not touch the table.
  template <typename Visit>
  void erase_if(Visit visit) {
    for (size_t at = 0; at < slots_.size() && used_ > 0;) {
      if (slots_[at].value != nullptr && visit(*slots_[at].value)) {
        erase_at(at);  // a follower may have moved here: look again
      } else {
        ++at;
      }
    }
  }

 private:
  struct Slot {
    uint64_t hashed = 0;
    T* value = nullptr;
  };

  size_t mask() const { return slots_.size() - 1; }

  // Where the key is, or the free slot where it would go.
  size_t locate(const MessageKey& key, uint64_t hashed) const {
    size_t at = hashed & mask();
    while (slots_[at].value != nullptr && !(slots_[at].hashed == hashed && slots_[at].value->key == key)) {
      at = (at + 1) & mask();
    }
    return at;
  }

  void erase_at(size_t hole) {
    for (size_t at = (hole + 1) & mask(); slots_[at].value != nullptr; at = (at + 1) & mask()) {
      const size_t home = slots_[at].hashed & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;  // its home lies behind the hole
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
    --used_;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != nullptr) slots_[locate(slot.value->key, slot.hashed)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
};

}  // namespace regroup::transport::tcp
