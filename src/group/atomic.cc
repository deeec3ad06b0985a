// SPDX-License-Identifier: Apache-2.0
#include "group/atomic.h"

#include <cstring>
#include <new>

#include "reduce/copy.h"

namespace regroup::group {

using backend::Request;

namespace {

// Calls visit(data, bytes) for every piece of memory that the request writes.
template <typename Visit>
void each_output(const Request& request, const Visit& visit) {
  if (request.collective == Collective::batch) {
    for (const Request& member : request.members) each_output(member, visit);
    return;
  }
  const transport::SpaceMemory& output = request.output;
  if (output.list == nullptr) {
    if (output.total() > 0) visit(output.base, output.total());
    return;
  }
  for (uint32_t part = 0; part < output.parts; ++part) {
    if (output.list[part].bytes > 0) visit(output.list[part].data, output.list[part].bytes);
  }
}

}  // namespace

Status AtomicRunner::run(backend::Backend& backend, const Request& request) {
  const base::Time deadline = base::deadline_after(request.timeout);
  const base::Turns::Turn turn(turns_, deadline);
  if (!turn.mine()) {
    // The others wait for this member's call: their deadline names it.
    return Status(StatusCode::timeout, "another atomic operation of this group did not end in time", {},
                  backend.epoch());
  }
  uint64_t bytes = 0;
  each_output(request, [&](const std::byte*, uint64_t piece) { bytes += piece; });
  if (kept_.size() < bytes) {
    try {
      kept_.resize(bytes);
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::resource_exhausted,
                    "no memory to keep what the outputs hold: " + std::to_string(bytes) + " bytes");
    }
  }
  uint64_t at = 0;
  // It is not looked at again soon, if ever.
  const bool past_caches = bytes >= reduction::streaming_threshold();
  each_output(request, [&](const std::byte* data, uint64_t piece) {
    if (past_caches) {
      reduction::copy_streaming(kept_.data() + at, data, piece);
    } else {
      std::memcpy(kept_.data() + at, data, piece);
    }
    at += piece;
  });

  const Status own = backend.run(request);
  // Agreement is sought also after a failure: that is when the others need this member's answer. As long as a call may
  // take, since the others may come as late.
  Result<Agreed> agreed = backend.agree_outcome(own.ok(), request.timeout);
  if (agreed.ok() && agreed->value != 0) return own;

  at = 0;
  each_output(request, [&](std::byte* data, uint64_t piece) {
    std::memcpy(data, kept_.data() + at, piece);
    at += piece;
  });
  if (!agreed.ok()) return agreed.status();
  if (!own.ok()) return own;
  // It ended well here, but not for all.
  const Status failure = backend.last_failure();
  if (!failure.ok()) return failure;
  return Status(agreed->failed.empty() ? StatusCode::aborted : StatusCode::peer_lost,
                "the operation failed for other members and was undone", agreed->failed, backend.epoch());
}

}  // namespace regroup::group
