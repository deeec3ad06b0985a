// SPDX-License-Identifier: Apache-2.0
// A library behind the C interface of include/regroup/module.h: found, tried out, loaded, and asked what it can do. It
// knows nothing of groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "regroup/capabilities.h"
#include "regroup/module.h"
#include "regroup/status.h"

namespace regroup::module {

// A module that is loaded and was found to keep its interface's rules. Immutable, so thread safe; loaded until the
// process ends, since libraries leave threads and handlers behind.
class Module {
 public:
  // By its name, from the folders of `search_path`. `unsupported` says why not: there is no such file, another version
  // of the interface, a library that is missing, capabilities that make no sense, a crash while it was tried out.
  static Result<std::shared_ptr<const Module>> load(const std::string& name);
  // From a table: for tests, and for what is linked in.
  static Result<std::shared_ptr<const Module>> from_table(const std::string& name, const regroup_module* table);

  const std::string& name() const { return name_; }
  const regroup_module& table() const { return *table_; }
  std::string version() const { return table_->version; }
  bool has_messages() const { return table_->send != nullptr; }
  bool wakes() const { return (table_->flags & REGROUP_MODULE_WAKES) != 0; }
  bool takes_device_memory() const { return (table_->flags & REGROUP_MODULE_DEVICE_MEMORY) != 0; }

  // How the library itself serves a collective.
  struct Service {
    bool served = false;
    bool as_bytes = false;  // as uint8, with counts in bytes
    bool takes_lists = false;
    bool slower_than_messages = false;
  };
  Service service(Collective collective, DataType type, ReduceOp::Kind op) const;

  // What a group over this module offers.
  Support support(Collective collective, DataType type, ReduceOp::Kind op) const;

 private:
  Module(std::string name, const regroup_module* table) : name_(std::move(name)), table_(table) {}

  std::string name_;
  const regroup_module* table_;
};

// Folders in which modules are looked for, in this order: those of REGROUP_MODULES (separated by colons), then
// "regroup" beside the library or the program, and in its ../lib.
std::vector<std::string> search_path();

// All modules whose files are there, tried out in a process of their own: one that crashes says so by its reason.
std::vector<Availability> known_modules();

}  // namespace regroup::module
