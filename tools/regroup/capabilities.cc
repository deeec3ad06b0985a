// SPDX-License-Identifier: Apache-2.0
#include "regroup/capabilities.h"

#include <map>

#include "output.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

Json listed(const std::vector<Availability>& all) {
  Json list = Json::array();
  for (const Availability& one : all) {
    Json object;
    object["name"] = one.name;
    object["version"] = one.version;
    object["available"] = one.available;
    object["reason"] = one.reason;
    list.push_back(std::move(object));
  }
  return list;
}

void print_as_json(const Capabilities& all) {
  Json object;
  object["backends"] = listed(all.backends);
  object["transports"] = listed(all.transports);
  Json table = Json::array();
  for (const Capabilities::Row& row : all.table) {
    Json entry;
    entry["backend"] = row.backend;
    entry["collective"] = name(row.collective);
    entry["dtype"] = name(row.type);
    entry["op"] = name(row.op);
    entry["support"] = name(row.support);
    table.push_back(std::move(entry));
  }
  object["table"] = std::move(table);
  print_json(object);
}

void print_availability(const char* title, const std::vector<Availability>& all) {
  print("{}\n", title);
  for (const Availability& one : all) {
    print("  {:<10} {:<12} {}\n", one.name, one.version, one.available ? "available" : "not available: " + one.reason);
  }
}

// For each backend a grid: collectives down, types across; of the operators the least support counts, and how many
// there are.
void print_table(const Capabilities& all) {
  constexpr char kMarks[] = {'n', 'e', '-'};
  std::map<std::string, std::map<Collective, std::map<DataType, std::string>>> grids;
  for (const Capabilities::Row& row : all.table) {
    grids[row.backend][row.collective][row.type] += kMarks[static_cast<size_t>(row.support)];
  }
  for (const auto& [backend, grid] : grids) {
    print("\n{}: n native, e emulated, - unsupported; a letter for each operator where there are several\n", backend);
    for (const auto& [collective, types] : grid) {
      print("  {}\n", name(collective));
      std::map<std::string, std::string> alike;
      for (const auto& [type, marks] : types) {
        std::string& list = alike[marks];
        if (!list.empty()) list += ' ';
        list += name(type);
      }
      for (const auto& [marks, list] : alike) print("    {:<10} {}\n", marks, list);
    }
  }
  print("\noperators, in that order:");
  for (int op = 0; op < kReduceOps; ++op) print(" {}", name(static_cast<ReduceOp::Kind>(op)));
  print("\n");
}

}  // namespace

void add_capabilities(CLI::App& app, int* status) {
  CLI::App* verb =
      app.add_subcommand("capabilities", "Show backends, transports, and what each does natively or at all");
  static bool json = false;
  verb->add_flag("--json", json, "one JSON object");
  verb->callback([status] {
    const Capabilities all = regroup::capabilities();
    if (json) {
      print_as_json(all);
    } else {
      print_availability("backends", all.backends);
      print_availability("transports", all.transports);
      print_table(all);
    }
    *status = kWorked;
  });
}

}  // namespace regroup::tool
