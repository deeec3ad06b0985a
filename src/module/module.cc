// SPDX-License-Identifier: Apache-2.0
#include "module/module.h"

#include <dlfcn.h>

#include <mutex>

#include "module/trial.h"
#include "reduce/reduce.h"

namespace regroup::module {

namespace {

Status useless(const std::string& name, const std::string& why) {
  return Status(StatusCode::unsupported, "backend \"" + name + "\" cannot be used: " + why);
}

constexpr uint32_t kKnownSupport = REGROUP_SUPPORTED | REGROUP_TAKES_LISTS | REGROUP_SLOWER_THAN_MESSAGES;
constexpr uint64_t kKnownFlags = REGROUP_MODULE_WAKES | REGROUP_MODULE_DEVICE_MEMORY;

// What is wrong with a table; empty if nothing is.
std::string objection(const std::string& name, const regroup_module& table) {
  if (table.abi != REGROUP_MODULE_ABI) {
    return "it speaks version " + std::to_string(table.abi) + " of the module interface, this regroup version " +
           std::to_string(REGROUP_MODULE_ABI);
  }
  if (table.bytes < sizeof(regroup_module)) return "its table is too short: " + std::to_string(table.bytes) + " bytes";
  if (table.name == nullptr || table.version == nullptr) return "its table has no name or version";
  if (table.name != name) return "its table says that its name is \"" + std::string(table.name) + "\"";
  if ((table.flags & ~kKnownFlags) != 0) return "its table has flags that this regroup does not know";
  if (table.obstacle == nullptr || table.support == nullptr || table.open == nullptr || table.close == nullptr ||
      table.abort == nullptr || table.start == nullptr || table.test == nullptr || table.cancel == nullptr)
    return "its table lacks a function";
  if ((table.send == nullptr) != (table.receive == nullptr)) return "its table has half of the functions for messages";
  if ((table.flags & REGROUP_MODULE_DEVICE_MEMORY) != 0 && table.owns == nullptr)
    return "its table does not tell device memory from other memory";
  bool any = table.send != nullptr;
  for (uint32_t collective = 0; collective <= REGROUP_ALL_TO_ALL; ++collective) {
    const uint32_t ops = reduces(static_cast<Collective>(collective)) ? kReduceOps : 1;
    for (uint32_t type = 0; type < kDataTypes; ++type) {
      for (uint32_t op = 0; op < ops; ++op) {
        const uint32_t support = table.support(collective, type, op);
        if ((support & ~kKnownSupport) != 0 || (support != 0 && (support & REGROUP_SUPPORTED) == 0)) {
          return "its capabilities make no sense: " + std::to_string(support) + " for " +
                 std::string(regroup::name(static_cast<Collective>(collective))) + " of " +
                 std::string(regroup::name(static_cast<DataType>(type)));
        }
        any |= support != 0;
      }
    }
  }
  return any ? "" : "it offers nothing";
}

// The library's result is ours where the operation is exact in any order, or is a float's plain sum or product: of
// those only the order of the terms may differ. Half types are rounded once here, where libraries round at each hop;
// what minima make of NaN differs between libraries; averages of integers accumulate wider here.
bool as_exact_as_ours(DataType type, ReduceOp::Kind op) {
  const bool folds_plainly = op == ReduceOp::Kind::sum || op == ReduceOp::Kind::product;
  switch (type) {
    case DataType::float32:
    case DataType::float64:
    case DataType::complex64:
    case DataType::complex128:
      return folds_plainly;
    case DataType::int8:
    case DataType::int16:
    case DataType::int32:
    case DataType::int64:
    case DataType::uint8:
    case DataType::uint16:
    case DataType::uint32:
    case DataType::uint64:
      return op != ReduceOp::Kind::average && op != ReduceOp::Kind::premultiplied_sum;
    default:
      return false;
  }
}

}  // namespace

Result<std::shared_ptr<const Module>> Module::from_table(const std::string& name, const regroup_module* table) {
  if (table == nullptr)
    return useless(name, "it does not know version " + std::to_string(REGROUP_MODULE_ABI) + " of the module interface");
  if (const std::string wrong = objection(name, *table); !wrong.empty()) return useless(name, wrong);
  if (const char* obstacle = table->obstacle(); obstacle != nullptr) return useless(name, obstacle);
  return std::shared_ptr<const Module>(new Module(name, table));
}

Result<std::shared_ptr<const Module>> Module::load(const std::string& name) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<const Module>> loaded;
  std::lock_guard lock(mutex);
  for (const auto& module : loaded) {
    if (module->name() == name) return module;
  }
  const std::string path = file_of(name);
  if (path.empty()) {
    std::string where;
    for (const std::string& folder : search_path()) where += (where.empty() ? "" : ", ") + folder;
    return useless(name, "there is no " + file_name(name) + " in " + where);
  }
  // First in another process: what crashes must not take this one along.
  if (const std::string reason = try_out(name).reason; !reason.empty()) return useless(name, reason);
  auto module = Module::from_table(name, table_in(path));
  if (module.ok()) loaded.push_back(*module);
  return module;
}

Module::Service Module::service(Collective collective, DataType type, ReduceOp::Kind op) const {
  Service service;
  if (collective > Collective::all_to_all) return service;
  if (reduces(collective) && !takes_device_memory() && !as_exact_as_ours(type, op)) return service;
  uint32_t support = table_->support(static_cast<uint32_t>(collective), static_cast<uint32_t>(type),
                                     reduces(collective) ? static_cast<uint32_t>(op) : 0);
  if (support == 0 && !reduces(collective)) {
    support = table_->support(static_cast<uint32_t>(collective), REGROUP_UINT8, 0);
    service.as_bytes = support != 0;
  }
  service.served = support != 0;
  service.takes_lists = (support & REGROUP_TAKES_LISTS) != 0;
  service.slower_than_messages = (support & REGROUP_SLOWER_THAN_MESSAGES) != 0 && has_messages();
  return service;
}

Support Module::support(Collective collective, DataType type, ReduceOp::Kind op) const {
  if (reduces(collective) && !reduction::supported(type, op)) return Support::unsupported;
  const Service own = service(collective, type, op);
  if (own.served && !own.slower_than_messages) return Support::native;
  if (takes_device_memory()) return Support::unsupported;
  return Support::emulated;
}

}  // namespace regroup::module
