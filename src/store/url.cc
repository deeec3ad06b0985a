// SPDX-License-Identifier: Apache-2.0
// From a URL to a store.
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/address.h"
#include "regroup/store.h"
#include "store/file_store.h"

namespace regroup {

namespace {

Status not_taken(const std::string& url, const char* taken) {
  return Status(StatusCode::invalid_argument,
                std::string("\"").append(url) + "\" is not a store's URL: " + taken + " is taken");
}

}  // namespace

Result<std::shared_ptr<Store>> connect_store(const std::string& url, std::chrono::nanoseconds timeout) {
  constexpr const char* kTaken = "tcp://host:port, tcp://host:port/prefix or file:///path";
  constexpr std::string_view kFile = "file://";
  const std::string_view text = url;
  if (text.starts_with(kFile)) {
    const std::string path(text.substr(kFile.size()));
    if (path.size() < 2 || path.front() != '/') return not_taken(url, kTaken);
    return store::open_file_store(path, timeout);
  }
  return not_taken(url, kTaken);
}

Result<std::shared_ptr<StoreServer>> serve_store(const std::string& url) {
  return Status(StatusCode::unsupported, "serving a store at " + url + " is not built yet");
}

}  // namespace regroup
