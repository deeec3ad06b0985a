// SPDX-License-Identifier: Apache-2.0
// What the machine itself allows, as a contender: the same collective written by hand for one call, over memory that
// all ranks share, without checks, errors, deadlines or sleep. Nobody can be much faster; how near a library comes to
// it is what it is worth. Like every contender it works on inputs that their owners have just written.
#pragma once

#include <memory>

#include "contest/contender.h"

namespace regroup::tool {

// Memory that the ranks share: to be made before they are forked.
class BareArea {
 public:
  explicit BareArea(const contest::Task& task);
  ~BareArea();
  BareArea(const BareArea&) = delete;
  BareArea& operator=(const BareArea&) = delete;

  bool made() const { return memory_ != nullptr; }
  contest::Meeting& meeting() { return *reinterpret_cast<contest::Meeting*>(memory_); }
  // The k-th buffer that rank `rank` took; each has room for the larger side.
  std::byte* buffer(Rank rank, uint32_t k) const;

 private:
  uint64_t buffer_bytes_ = 0;
  uint64_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

std::unique_ptr<contest::Contender> make_bare_contender(BareArea& area);

}  // namespace regroup::tool
