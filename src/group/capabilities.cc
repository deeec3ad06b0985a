// SPDX-License-Identifier: Apache-2.0
#include "regroup/capabilities.h"

#include "reduce/reduce.h"

namespace regroup {

std::string_view name(Support support) {
  constexpr std::string_view names[] = {"native", "emulated", "unsupported"};
  return static_cast<size_t>(support) < std::size(names) ? names[static_cast<size_t>(support)] : "?";
}

Capabilities capabilities() {
  Capabilities all;
  all.backends.push_back({"native", REGROUP_VERSION, true, ""});
  all.transports.push_back({"shm", REGROUP_VERSION, true, ""});
  all.transports.push_back({"tcp", REGROUP_VERSION, true, ""});
  for (int c = 0; c < kCollectives; ++c) {
    const Collective collective = static_cast<Collective>(c);
    for (int t = 0; t < kDataTypes; ++t) {
      const DataType type = static_cast<DataType>(t);
      const int ops = reduces(collective) ? kReduceOps : 1;
      for (int o = 0; o < ops; ++o) {
        const ReduceOp::Kind op = static_cast<ReduceOp::Kind>(o);
        const bool has = !reduces(collective) || reduction::supported(type, op);
        all.table.push_back({"native", collective, type, op, has ? Support::native : Support::unsupported});
      }
    }
  }
  return all;
}

}  // namespace regroup
