// SPDX-License-Identifier: Apache-2.0
// Where a peer listens: text, socket addresses, and which of this host's addresses others should be told.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/status.h"

namespace regroup::net {

struct HostPort {
  std::string host;  // without brackets; may carry a scope: "fe80::1%eth0"; may be empty
  uint16_t port = 0;
};

// "host:port", "10.0.0.1:29500", "[::1]:29500", "[fe80::1%eth0]:29500", ":0".
Result<HostPort> parse_host_port(std::string_view text);
// The inverse; brackets where the host holds a colon.
std::string format_host_port(std::string_view host, uint16_t port);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  // "10.0.0.1:29500", "[::1]:29500", "@name" for an abstract Unix socket.
  std::string text() const;
};

// The addresses of `host`, in the system's order of preference; never empty. A numeric address asks nobody; a name asks
// the resolver, which has its own time-outs (seconds).
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);

// A Unix socket's name in the abstract namespace: it needs no file and goes with its last socket.
Result<SocketAddress> unix_address(std::string_view name);

// Whether `host` is an address, not a name that must be looked up.
bool is_numeric(const std::string& host);

// The address under which this host should be known to a group, as text without a port.
// `interface`: where not empty, its first usable address (a comma-separated list: the first interface that has one).
// Else `towards` (a host that all members reach, may be empty): the local address from which packets to it leave. A
// name that leads back to this host by loopback only (as 127.0.1.1 in many hosts files) does not count; literal
// loopback does. Else the first address of an interface that is up; loopback where there is none.
Result<std::string> host_address(const std::string& interface, const std::string& towards);

}  // namespace regroup::net
