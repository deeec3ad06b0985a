// SPDX-License-Identifier: Apache-2.0
// From a URL to a store.
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/address.h"
#include "regroup/store.h"
#include "store/file_store.h"
#include "store/tcp_store_client.h"
#include "store/tcp_store_server.h"

namespace regroup {

namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kFile = "file://";

Status not_taken(const std::string& url, const char* taken) {
  return Status(StatusCode::invalid_argument,
                std::string("\"").append(url) + "\" is not a store's URL: " + taken + " is taken");
}

}  // namespace

Result<std::shared_ptr<Store>> connect_store(const std::string& url, std::chrono::nanoseconds timeout) {
  const Status bad = not_taken(url, "tcp://host:port, tcp://host:port/prefix or file:///path");
  const std::string_view text = url;
  if (text.starts_with(kFile)) {
    const std::string path(text.substr(kFile.size()));
    if (path.size() < 2 || path.front() != '/') return bad;
    return store::open_file_store(path, timeout);
  }
  if (!text.starts_with(kTcp)) return bad;
  const std::string_view rest = text.substr(kTcp.size());
  const size_t slash = rest.find('/');
  Result<net::HostPort> where = net::parse_host_port(rest.substr(0, slash));
  if (!where.ok() || where->host.empty() || where->port == 0) return bad;
  Result<std::shared_ptr<Store>> store = store::connect_tcp_store(*where, base::deadline_after(timeout));
  if (!store.ok() || slash == std::string_view::npos || slash + 1 == rest.size()) return store;
  return make_prefix_store(std::string(rest.substr(slash + 1)), *store);
}

Result<std::shared_ptr<StoreServer>> serve_store(const std::string& url) {
  const Status bad = not_taken(url, "tcp://host:port");
  if (!url.starts_with(kTcp)) return bad;
  Result<net::HostPort> where = net::parse_host_port(std::string_view(url).substr(kTcp.size()));
  if (!where.ok() || where->host.empty()) return bad;
  return store::serve_tcp_store(*where);
}

}  // namespace regroup
