// SPDX-License-Identifier: Apache-2.0
// What a process holds of the system: descriptors, threads, shared mappings, children. Compared before and after.
#pragma once

#include <map>
#include <string>

namespace regroup::tool::chaos {

class Resources {
 public:
  // Of the calling process, now.
  static Resources count();
  // What is more than `before`: "2 × socket, 1 × thread"; empty if nothing is.
  std::string beyond(const Resources& before) const;

 private:
  std::map<std::string, int> held_;
};

}  // namespace regroup::tool::chaos
