// SPDX-License-Identifier: Apache-2.0
// A store's own time-out, for calls that do not bring one.
#pragma once

#include <atomic>

#include "regroup/store.h"

namespace regroup::store {

class DefaultTimeout {
 public:
  void set(Store::Duration timeout) { timeout_ = timeout < Store::Duration(0) ? kInitial : timeout; }
  Store::Duration get() const { return timeout_; }
  // What a call's `timeout` argument means.
  Store::Duration resolve(Store::Duration asked) const { return asked < Store::Duration(0) ? get() : asked; }

 private:
  static constexpr Store::Duration kInitial = std::chrono::minutes(5);
  std::atomic<Store::Duration> timeout_{kInitial};
};

}  // namespace regroup::store
