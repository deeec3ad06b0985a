// SPDX-License-Identifier: Apache-2.0
// A started operation.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "regroup/status.h"

namespace regroup {

// Thread safe; copies mean the same operation. The operation's memory is lent to the library from `start` until the
// operation has ended; dropping a Work neither cancels it nor ends the loan (Operation::owned_by keeps memory alive).
class Work {
 public:
  struct State;

  Work() = default;  // of no operation: done, ok
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Waits until the operation has ended, which it does at its own deadline at the latest.
  Status wait();
  // Waits no longer than `timeout`: then a `timeout` Status, and the operation goes on.
  Status wait(std::chrono::nanoseconds timeout);
  bool done() const;
  // How it ended; ok while it has not.
  Status status() const;
  // Calls `callback` with how it ended, once, on the library's callback thread (or there soon, if it has ended
  // already).
  void then(std::function<void(Status)> callback);
  // Aborts the group, as ProcessGroup::abort.
  void abort();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace regroup
