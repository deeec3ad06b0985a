// SPDX-License-Identifier: Apache-2.0
#include "output.h"
#include "verbs.h"

namespace regroup::tool {

void add_help(CLI::App& app, int* status) {
  CLI::App* verb = app.add_subcommand("help", "Explain the tool, or one verb");
  static std::string about;
  verb->add_option("VERB", about, "which verb");
  // Now: once a verb is chosen, the whole tool's help is no longer to be had.
  static const std::string overview = app.help();
  verb->callback([&app, status] {
    if (about.empty()) {
      print("{}", overview);
      print("`regroup help VERB` explains one of them.\n");
      return;
    }
    const CLI::App* other = find_verb(app, about);
    if (other != nullptr) {
      print("{}", other->help("regroup"));
      return;
    }
    note("regroup help: \"{}\" is no verb; `regroup help` lists them.\n", about);
    *status = kUsage;
  });
}

}  // namespace regroup::tool
