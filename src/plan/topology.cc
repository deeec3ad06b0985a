// SPDX-License-Identifier: Apache-2.0
#include "plan/topology.h"

#include <algorithm>

namespace regroup::plan {

Topology::Topology(const std::vector<uint32_t>& host_of) {
  std::vector<uint32_t> labels;
  for (Rank rank = 0; rank < host_of.size(); ++rank) {
    const auto known = std::find(labels.begin(), labels.end(), host_of[rank]);
    const uint32_t host = static_cast<uint32_t>(known - labels.begin());
    if (known == labels.end()) {
      labels.push_back(host_of[rank]);
      members_.emplace_back();
    }
    host_of_.push_back(host);
    local_rank_.push_back(static_cast<Rank>(members_[host].size()));
    members_[host].push_back(rank);
  }
}

Topology Topology::uniform(Rank hosts, Rank per_host) {
  std::vector<uint32_t> host_of(static_cast<size_t>(hosts) * per_host);
  for (size_t rank = 0; rank < host_of.size(); ++rank) host_of[rank] = static_cast<uint32_t>(rank / per_host);
  return Topology(host_of);
}

bool Topology::even() const {
  return std::all_of(members_.begin(), members_.end(),
                     [this](const auto& m) { return m.size() == members_[0].size(); });
}

}  // namespace regroup::plan
