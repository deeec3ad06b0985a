// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/fd.h"
#include "base/system_error.h"

namespace regroup::net {

Result<HostPort> parse_host_port(std::string_view text) {
  const Status bad(StatusCode::invalid_argument,
                   std::string("\"").append(text) + "\" is not an address: host:port or [v6 address]:port is taken");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.size() < 2 || host.back() != ']') return bad;
    host = host.substr(1, host.size() - 2);
    if (host.empty() || host.find_first_of("[]") != std::string_view::npos) return bad;
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return bad;  // a bare v6 address: its end and the port's start cannot be told apart
  }
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  return HostPort{std::string(host), port};
}

std::string format_host_port(std::string_view host, uint16_t port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  std::string text(brackets ? "[" : "");
  text.append(host).append(brackets ? "]:" : ":");
  text += std::to_string(port);
  return text;
}

namespace {

std::string numeric_host(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList look_up(const std::string& host, uint16_t port, int flags, int* error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  *error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return AddressList(*error == 0 ? found : nullptr, &::freeaddrinfo);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

// How good an address is to be told to others: 0 is not at all.
int preference(const sockaddr* address) {
  if (address == nullptr) return 0;
  if (address->sa_family == AF_INET) return is_loopback(address) ? 1 : 4;
  if (address->sa_family != AF_INET6) return 0;
  if (is_loopback(address)) return 1;
  // A link-local address needs a scope, whose name other hosts need not share.
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) ? 2 : 3;
}

// The best address of `interface` (of any interface where it is empty) that is up; empty where there is none.
std::string interface_address(std::string_view interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  const sockaddr* best = nullptr;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if ((at->ifa_flags & IFF_UP) == 0 || (!interface.empty() && interface != at->ifa_name)) continue;
    if (preference(at->ifa_addr) > preference(best)) best = at->ifa_addr;
  }
  if (best == nullptr) return {};
  return numeric_host(best, best->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

// The local address from which packets to `target` would leave. Connecting a datagram socket sends nothing.
std::string route_to(const SocketAddress& target) {
  const base::Fd probe(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid() || ::connect(probe.get(), target.get(), target.length) != 0) return {};
  SocketAddress local;
  local.length = sizeof local.storage;
  if (::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.length) != 0) return {};
  if (is_loopback(local.get()) && !is_loopback(target.get())) return numeric_host(target.get(), target.length);
  return numeric_host(local.get(), local.length);
}

}  // namespace

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) {
    const auto* local = reinterpret_cast<const sockaddr_un*>(&storage);
    return std::string("@").append(local->sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  }
  const uint16_t port = ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                                  : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return format_host_port(numeric_host(get(), length), port);
}

bool is_numeric(const std::string& host) {
  int error;
  return look_up(host, 0, AI_NUMERICHOST, &error) != nullptr;
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) {
  int error = EAI_NONAME;
  AddressList list(nullptr, &::freeaddrinfo);
  if (!host.empty()) list = look_up(host, port, AI_NUMERICHOST, &error);
  if (error == EAI_NONAME && !host.empty()) list = look_up(host, port, 0, &error);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    SocketAddress& address = addresses.emplace_back();
    address.length = at->ai_addrlen;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
  }
  if (!addresses.empty()) return addresses;
  return Status(StatusCode::io_error, "cannot find the address of host \"" + host +
                                          "\": " + (error != 0 ? ::gai_strerror(error) : "it has none"));
}

Result<SocketAddress> unix_address(std::string_view name) {
  SocketAddress address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (name.empty() || name.size() > sizeof local->sun_path - 1) {
    return Status(StatusCode::invalid_argument, "a Unix socket's name has 1 to " +
                                                    std::to_string(sizeof local->sun_path - 1) + " bytes, not " +
                                                    std::to_string(name.size()));
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<std::string> host_address(const std::string& interface, const std::string& towards) {
  if (!interface.empty()) {
    for (std::string_view left = interface; !left.empty();) {
      const size_t comma = left.find(',');
      const std::string_view name = left.substr(0, comma);
      left = comma == std::string_view::npos ? std::string_view() : left.substr(comma + 1);
      if (name.empty()) continue;
      if (std::string address = interface_address(name); !address.empty()) return address;
    }
    return Status(StatusCode::invalid_argument, "no network interface \"" + interface + "\" is up and has an address");
  }
  if (!towards.empty()) {
    Result<std::vector<SocketAddress>> targets = resolve(towards, 9);
    const bool local_meant = towards == "localhost" || is_numeric(towards);
    for (size_t i = 0; targets.ok() && i < targets->size(); ++i) {
      if (is_loopback(targets.value()[i].get()) && !local_meant) continue;
      if (std::string address = route_to(targets.value()[i]); !address.empty()) return address;
    }
  }
  if (std::string address = interface_address(""); !address.empty()) return address;
  return std::string("127.0.0.1");
}

}  // namespace regroup::net
