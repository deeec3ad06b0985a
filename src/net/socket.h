// SPDX-License-Identifier: Apache-2.0
// Stream sockets as this library uses them: close-on-exec, non-blocking, without Nagle's delay. Every wait has a
// deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "net/address.h"
#include "regroup/status.h"

namespace regroup::net {

// Listens on `host` (empty: all addresses, v6 and v4, or v4 alone where v6 is switched off); port 0 lets the system
// choose.
Result<base::Fd> listen_tcp(const std::string& host, uint16_t port);
Result<base::Fd> listen_unix(std::string_view name);
uint16_t local_port(int fd);

// The next connection; invalid when none waits. `exhausted`, where given, tells whether accepting
// failed for want of descriptors or memory (then the listener stays readable: pause before the next try).
base::Fd accept_one(int listener, bool* exhausted = nullptr);

// Starts a connection; it may still be in progress. Errors at once (refused, no route) are io_error.
Result<base::Fd> begin_connect(const SocketAddress& address);
// How a connection in progress that became writable went: 0 or an errno.
int connect_outcome(int fd);

// Connects to the first address of `host` that answers, trying again with growing, jittered pauses until the deadline.
// `timeout` tells the address, how long it was tried and the last refusal.
Result<base::Fd> connect_tcp(const std::string& host, uint16_t port, base::Time deadline);

// Makes a host that has not answered for `silence` show as an error: at once where something was sent, and on an idle
// connection within a second more, for the kernel asks once a second at most. For connections whose reader always reads
// only: bulk data to a busy peer may rightly stand still for longer.
void keep_alive(int fd, base::Duration silence);

// Whether both ends of a TCP connection have one address: then its bytes never leave this machine's memory.
bool within_machine(int fd);
// Bounds what the kernel holds of what was written and not yet taken over by the peer's, instead of letting it grow.
void bound_send_buffer(int fd, int bytes);

// Waits for poll(2) `events` until the deadline. False: the deadline passed.
bool wait_for(int fd, short events, base::Time deadline);

// All bytes or an error: `timeout` at the deadline, `io_error` when the connection ended.
Status send_all(int fd, std::span<const std::byte> bytes, base::Time deadline);
Status receive_all(int fd, std::span<std::byte> bytes, base::Time deadline);

}  // namespace regroup::net
