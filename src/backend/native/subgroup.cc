// SPDX-License-Identifier: Apache-2.0
// Groups made of members of a group: they meet through its messages instead of a store.
#include <algorithm>

#include "backend/native/native_backend.h"
#include "base/hash.h"

namespace regroup::backend::native {

namespace {

constexpr uint64_t kContactBytes = 1024;     // of each text that is exchanged through an existing group
constexpr uint32_t kInternalTag = 1u << 31;  // set in tags that callers cannot use

}  // namespace

// The members meet through messages of this group: the first one collects the texts and hands them out.
Result<std::shared_ptr<Backend>> NativeBackend::subgroup(const std::vector<Rank>& ranks,
                                                         std::chrono::nanoseconds timeout) {
  NativeOptions options = options_;
  options.size = static_cast<Rank>(ranks.size());
  options.timeout = timeout;
  options.threads = facts_.threads;  // other members of this group use the other cores
  options.rank = static_cast<Rank>(std::find(ranks.begin(), ranks.end(), facts_.rank) - ranks.begin());
  const uint32_t tag =
      kInternalTag | static_cast<uint32_t>(base::hash_bytes(ranks.data(), ranks.size() * sizeof(Rank)) >> 33);
  const auto transfer = [&](Collective collective, Rank peer, std::string* text, base::Time deadline) {
    Request request;
    request.collective = collective;
    request.root = peer;
    request.tag = tag;
    request.count = text->size();
    request.timeout = std::max<base::Duration>(deadline - base::Clock::now(), std::chrono::milliseconds(1));
    auto& memory = collective == Collective::send ? request.input : request.output;
    memory = {reinterpret_cast<std::byte*>(text->data()), text->size(), nullptr, 1};
    return run(request);
  };
  const Exchange exchange = [&](const std::string& mine, base::Time deadline) -> Result<std::vector<std::string>> {
    std::string all(kContactBytes * ranks.size(), '\0');
    std::string own = mine;
    own.resize(kContactBytes);
    if (options.rank == 0) {
      all.replace(0, kContactBytes, own);
      for (size_t i = 1; i < ranks.size(); ++i) {
        std::string text(kContactBytes, '\0');
        if (Status status = transfer(Collective::receive, ranks[i], &text, deadline); !status.ok()) return status;
        all.replace(i * kContactBytes, kContactBytes, text);
      }
      for (size_t i = 1; i < ranks.size(); ++i) {
        if (Status status = transfer(Collective::send, ranks[i], &all, deadline); !status.ok()) return status;
      }
    } else {
      if (Status status = transfer(Collective::send, ranks[0], &own, deadline); !status.ok()) return status;
      if (Status status = transfer(Collective::receive, ranks[0], &all, deadline); !status.ok()) return status;
    }
    std::vector<std::string> texts;
    for (size_t i = 0; i < ranks.size(); ++i) texts.emplace_back(all.substr(i * kContactBytes, kContactBytes).c_str());
    return texts;
  };
  return join(options, exchange);
}

}  // namespace regroup::backend::native
