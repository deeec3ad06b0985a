// SPDX-License-Identifier: Apache-2.0
// Which ranks share a host. Known to all ranks alike.
#pragma once

#include <cstdint>
#include <vector>

#include "regroup/types.h"

namespace regroup::plan {

// Hosts are numbered by their lowest rank's order of appearance.
class Topology {
 public:
  Topology() = default;
  // host_of[r]: any label of the host of rank r.
  explicit Topology(const std::vector<uint32_t>& host_of);
  // All `size` ranks on one host.
  static Topology one_host(Rank size) { return Topology(std::vector<uint32_t>(size, 0)); }
  // `hosts` hosts with `per_host` ranks each, in rank order.
  static Topology uniform(Rank hosts, Rank per_host);

  Rank size() const { return static_cast<Rank>(host_of_.size()); }
  uint32_t hosts() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t host_of(Rank rank) const { return host_of_[rank]; }
  // Ascending.
  const std::vector<Rank>& members(uint32_t host) const { return members_[host]; }
  // Position of `rank` among the members of its host.
  Rank local_rank(Rank rank) const { return local_rank_[rank]; }
  bool same_host(Rank a, Rank b) const { return host_of_[a] == host_of_[b]; }
  // Whether every host has the same number of ranks.
  bool even() const;

 private:
  std::vector<uint32_t> host_of_;
  std::vector<Rank> local_rank_;
  std::vector<std::vector<Rank>> members_;
};

}  // namespace regroup::plan
