// SPDX-License-Identifier: Apache-2.0
// epoll with this library's clock: the few calls that every loop over descriptors here shares.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/fd.h"
#include "regroup/status.h"

namespace regroup::net {

Result<base::Fd> make_epoll();
Result<base::Fd> make_bell();  // a non-blocking eventfd

// Adds `fd`, or changes what it is watched for. `data` comes back in the events.
Status epoll_watch(int epoll, int fd, uint32_t events, uint64_t data);
void epoll_forget(int epoll, int fd);

// Fills `events` and returns how many; 0 at the deadline, or early when a signal came. Never ends before the deadline
// by rounding: with kernels before 5.11 it ends up to a millisecond late.
int epoll_wait_until(int epoll, std::span<epoll_event> events, base::Time deadline);

void ring_bell(int bell);
void silence_bell(int bell);

}  // namespace regroup::net
