// SPDX-License-Identifier: Apache-2.0
#include "regroup/status.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace regroup {

std::string_view name(StatusCode code) {
  constexpr std::string_view names[] = {"ok",        "invalid_argument",   "mismatch", "unsupported",
                                        "timeout",   "peer_lost",          "aborted",  "stale_epoch",
                                        "no_quorum", "resource_exhausted", "io_error", "internal"};
  return static_cast<size_t>(code) < std::size(names) ? names[static_cast<size_t>(code)] : "?";
}

Status::Status(StatusCode code, std::string message) : Status(code, std::move(message), {}) {}

Status::Status(StatusCode code, std::string message, std::vector<Rank> ranks, uint64_t epoch, uint64_t sequence) {
  if (code == StatusCode::ok) return;
  std::sort(ranks.begin(), ranks.end());
  detail_ = std::make_shared<const Detail>(Detail{code, std::move(message), std::move(ranks), epoch, sequence});
}

const std::string& Status::message() const {
  static const std::string none;
  return detail_ ? detail_->message : none;
}

const std::vector<Rank>& Status::ranks() const {
  static const std::vector<Rank> none;
  return detail_ ? detail_->ranks : none;
}

std::string Status::to_string() const {
  if (!detail_) return "ok";
  return std::string(name(detail_->code)) + ": " + detail_->message;
}

void detail::value_of_error(const Status& status) {
  std::fprintf(stderr, "regroup: value() of a Result that holds an error: %s\n", status.to_string().c_str());
  std::abort();
}

}  // namespace regroup
