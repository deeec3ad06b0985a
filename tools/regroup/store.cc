// SPDX-License-Identifier: Apache-2.0
#include "regroup/store.h"

#include <signal.h>

#include "output.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

struct Options {
  std::string listen = "127.0.0.1:0";
  bool json = false;
};

int serve(const Options& options) {
  // Blocked before the server starts its threads, so that sigwait below gets them.
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Result<std::shared_ptr<StoreServer>> server = serve_store("tcp://" + options.listen);
  if (!server.ok()) {
    note("regroup store: {}\n", server.status().to_string());
    return kFailed;
  }
  const std::string address = server.value()->address();
  if (options.json)
    print_json({{"address", address}});
  else
    print("{}\n", address);
  std::fflush(stdout);
  note("serving; a signal ends it\n");
  int caught = 0;
  ::sigwait(&signals, &caught);
  return kWorked;
}

}  // namespace

void add_store(CLI::App& app, int* status) {
  CLI::App* verb =
      app.add_subcommand("store", "Serve a store by which ranks find each other; prints its address first");
  static Options options;
  verb->add_option("--listen", options.listen, "HOST:PORT; port 0 lets the system choose (127.0.0.1:0)")
      ->check([](const std::string& text) {
        const size_t colon = text.rfind(':');
        const bool right = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                           text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
        return right ? std::string() : "takes HOST:PORT, not \"" + text + "\"";
      })
      ->type_name("HOST:PORT");
  verb->add_flag("--json", options.json, "the address as a JSON object");
  verb->callback([status] { *status = serve(options); });
}

}  // namespace regroup::tool
