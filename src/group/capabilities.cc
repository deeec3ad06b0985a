// SPDX-License-Identifier: Apache-2.0
#include "regroup/capabilities.h"

#include "module/module.h"
#include "reduce/reduce.h"

namespace regroup {

std::string_view name(Support support) {
  constexpr std::string_view names[] = {"native", "emulated", "unsupported"};
  return static_cast<size_t>(support) < std::size(names) ? names[static_cast<size_t>(support)] : "?";
}

namespace {

// Calls visit(collective, type, operator) for every row of the table.
template <typename Visit>
void for_each_cell(Visit visit) {
  for (int c = 0; c < kCollectives; ++c) {
    const Collective collective = static_cast<Collective>(c);
    for (int t = 0; t < kDataTypes; ++t) {
      const int ops = reduces(collective) ? kReduceOps : 1;
      for (int o = 0; o < ops; ++o) visit(collective, static_cast<DataType>(t), static_cast<ReduceOp::Kind>(o));
    }
  }
}

}  // namespace

Capabilities capabilities() {
  Capabilities all;
  all.backends.push_back({"native", REGROUP_VERSION, true, ""});
  all.transports.push_back({"shm", REGROUP_VERSION, true, ""});
  all.transports.push_back({"tcp", REGROUP_VERSION, true, ""});
  for_each_cell([&](Collective collective, DataType type, ReduceOp::Kind op) {
    const bool has = !reduces(collective) || reduction::supported(type, op);
    all.table.push_back({"native", collective, type, op, has ? Support::native : Support::unsupported});
  });
  for (Availability& known : module::known_modules()) {
    if (known.available) {
      if (auto module = module::Module::load(known.name); module.ok()) {
        for_each_cell([&](Collective collective, DataType type, ReduceOp::Kind op) {
          all.table.push_back({known.name, collective, type, op, (*module)->support(collective, type, op)});
        });
      } else {
        known.available = false;
        known.reason = module.status().message();
      }
    }
    all.backends.push_back(std::move(known));
  }
  return all;
}

}  // namespace regroup
