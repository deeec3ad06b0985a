// SPDX-License-Identifier: Apache-2.0
// Errors are values. `Status` says what went wrong, who is to blame, and where; `Result<T>` is a value or a Status.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "regroup/types.h"

namespace regroup {

enum class StatusCode : uint8_t {
  ok,
  invalid_argument,    // the call itself is wrong: nothing was sent, the group stays usable
  mismatch,            // ranks called different things: the result does not count, the group stays usable
  unsupported,         // a documented "cannot be had": the group stays usable
  timeout,             // the deadline passed; `ranks` did not come. Breaks the group
  peer_lost,           // `ranks` died or became unreachable. Breaks the group
  aborted,             // somebody called abort(). Breaks the group
  stale_epoch,         // this member belongs to a former life of the group. Breaks the group
  no_quorum,           // too few members are left to go on
  resource_exhausted,  // memory, descriptors or another limit; the message states needed and allowed
  io_error,            // the operating system refused. Breaks the group
  internal,            // a bug in regroup, or an exception in what `run_local` was given. Breaks the group
};

std::string_view name(StatusCode code);

// Whether a group that returned `code` must be reborn before it can be used again.
constexpr bool breaks_group(StatusCode code) {
  return code == StatusCode::timeout || code == StatusCode::peer_lost || code == StatusCode::aborted ||
         code == StatusCode::stale_epoch || code == StatusCode::io_error || code == StatusCode::internal;
}

// Cheap to copy; a success allocates nothing. Immutable, so safe to read from many threads.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  Status(StatusCode code, std::string message, std::vector<Rank> ranks, uint64_t epoch = 0, uint64_t sequence = 0);

  bool ok() const { return detail_ == nullptr; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return detail_ ? detail_->code : StatusCode::ok; }
  // One sentence for a person; empty for success.
  const std::string& message() const;
  // The ranks blamed, ascending; empty where nobody is.
  const std::vector<Rank>& ranks() const;
  uint64_t epoch() const { return detail_ ? detail_->epoch : 0; }
  // The group's sequence number of the operation; 0 where there is none.
  uint64_t sequence() const { return detail_ ? detail_->sequence : 0; }
  // "timeout: rank 3 did not come …"; "ok" for success.
  std::string to_string() const;

 private:
  struct Detail {
    StatusCode code;
    std::string message;
    std::vector<Rank> ranks;
    uint64_t epoch;
    uint64_t sequence;
  };
  std::shared_ptr<const Detail> detail_;
};

// What `check` and `value_or_throw` throw: the Status as an exception.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.to_string()), status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// For those who prefer exceptions: throws Error unless `status` is ok.
inline void check(const Status& status) {
  if (!status.ok()) throw Error(status);
}

// A T, or the Status (never ok) that says why there is none. `value()` of an error is a bug of the caller and ends the
// program with the message.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}         // NOLINT: implicit by intent
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {}  // NOLINT: implicit by intent

  bool ok() const { return state_.index() == 1; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<0>(state_); }

  T& value() & { return *checked(); }
  const T& value() const& { return *const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(*checked()); }
  T& operator*() { return *checked(); }
  T* operator->() { return checked(); }

  T value_or_throw() && {
    check(status());
    return std::move(*checked());
  }

 private:
  T* checked();
  std::variant<Status, T> state_;
};

namespace detail {
[[noreturn]] void value_of_error(const Status& status);
}

template <typename T>
T* Result<T>::checked() {
  if (T* value = std::get_if<1>(&state_)) return value;
  detail::value_of_error(std::get<0>(state_));
}

}  // namespace regroup
