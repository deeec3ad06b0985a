// SPDX-License-Identifier: Apache-2.0
// Puts the parts together: the only file that names concrete classes of several layers.
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>

#include "backend/native/native_backend.h"
#include "backend/native/tuning_file.h"
#include "group/lobby.h"
#include "group/process_group.h"
#include "module/module.h"
#include "net/address.h"
#include "regroup/join.h"

extern char** environ;

namespace regroup {

namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// A misspelt name would be ignored in silence.
void warn_about_unknown_variables() {
  static const std::set<std::string_view> known = {
      "REGROUP_STORE",     "REGROUP_RANK", "REGROUP_SIZE",   "REGROUP_TIMEOUT",  "REGROUP_BACKEND", "REGROUP_TRANSPORT",
      "REGROUP_INTERFACE", "REGROUP_LOG",  "REGROUP_TUNING", "REGROUP_LIVENESS", "REGROUP_THREADS", "REGROUP_MODULES"};
  static std::once_flag once;
  std::call_once(once, [] {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      const std::string_view name = text.substr(0, text.find('='));
      if (!name.starts_with("REGROUP_") || name.starts_with("REGROUP_TEST_") || known.contains(name)) continue;
      std::fprintf(stderr, "regroup: the environment variable %s is not known and has no effect\n",
                   std::string(name).c_str());
    }
  });
}

Status bad_variable(const char* name, const char* value, const char* taken) {
  return Status(StatusCode::invalid_argument, std::string(name) + " is \"" + value + "\"; it takes " + taken);
}

// A rank or size (`what`) from the first of the two variables that is set.
Status read_number(const std::string& what, const char* name, const char* fallback, std::optional<Rank>* out) {
  if (out->has_value()) return Status();
  const char* used = variable(name) != nullptr ? name : fallback;
  const char* value = variable(used);
  if (value == nullptr) {
    return Status(StatusCode::invalid_argument, "joining: the " + what + " is not known: pass JoinOptions::" + what +
                                                    ", or set " + name + " or " + fallback +
                                                    " in the environment, as `regroup run` does");
  }
  Rank number = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), number);
  if (error != std::errc() || *end != '\0') return bad_variable(used, value, "a number");
  *out = number;
  return Status();
}

Status read_threads(std::optional<uint32_t>* out) {
  const char* value = variable("REGROUP_THREADS");
  const std::string taken = "a number from 1 to " + std::to_string(executor::kMostThreads);
  if (!out->has_value() && value != nullptr) {
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(value, value + std::strlen(value), number);
    if (error != std::errc() || *end != '\0' || number < 1 || number > executor::kMostThreads)
      return bad_variable("REGROUP_THREADS", value, taken.c_str());
    *out = number;
  }
  if (out->has_value() && (**out < 1 || **out > executor::kMostThreads)) {
    return Status(StatusCode::invalid_argument, "joining: " + std::to_string(**out) + " threads; it takes " + taken);
  }
  return Status();
}

// "30s", "500ms", "5m", "2h", or seconds.
Status read_duration(const char* name, std::optional<std::chrono::nanoseconds>* out) {
  const char* value = variable(name);
  if (out->has_value() || value == nullptr) return Status();
  char* end = nullptr;
  const double number = std::strtod(value, &end);
  const std::string_view unit(end);
  const double seconds = unit == "ms"                  ? 1e-3
                         : unit == "us"                ? 1e-6
                         : unit.empty() || unit == "s" ? 1
                         : unit == "m"                 ? 60
                         : unit == "h"                 ? 3600
                                                       : 0;
  if (end == value || seconds == 0 || !(number > 0) || number * seconds > 1e9) {
    return bad_variable(name, value, "a duration like 500ms, 30s or 5m");
  }
  *out = std::chrono::nanoseconds(static_cast<int64_t>(number * seconds * 1e9));
  return Status();
}

// What the environment says where the caller does not.
Status complete(JoinOptions* options) {
  warn_about_unknown_variables();
  if (Status status = read_duration("REGROUP_TIMEOUT", &options->timeout); !status.ok()) return status;
  if (Status status = read_duration("REGROUP_LIVENESS", &options->liveness); !status.ok()) return status;
  if (Status status = read_threads(&options->threads); !status.ok()) return status;
  if (options->newcomer) {
    options->rank = 0;  // until it is invited
    options->size = 1;
  }
  if (Status status = read_number("rank", "REGROUP_RANK", "RANK", &options->rank); !status.ok()) return status;
  if (Status status = read_number("size", "REGROUP_SIZE", "WORLD_SIZE", &options->size); !status.ok()) return status;
  if (*options->size == 0)
    return Status(StatusCode::invalid_argument, "joining: the size is 0; a group has at least one rank");
  if (*options->rank >= *options->size) {
    return Status(StatusCode::invalid_argument, "joining: rank " + std::to_string(*options->rank) + " of a group of " +
                                                    std::to_string(*options->size) + "; ranks are 0 to " +
                                                    std::to_string(*options->size - 1));
  }
  if (options->timeout.has_value() && *options->timeout <= std::chrono::nanoseconds(0)) {
    return Status(StatusCode::invalid_argument, "joining: the time-out must be positive");
  }
  if (options->liveness.has_value() && *options->liveness < std::chrono::milliseconds(1)) {
    return Status(StatusCode::invalid_argument, "joining: the liveness must be at least 1 ms");
  }
  if (!options->transport.has_value() && variable("REGROUP_TRANSPORT") != nullptr)
    options->transport = variable("REGROUP_TRANSPORT");
  if (!options->backend.has_value() && variable("REGROUP_BACKEND") != nullptr)
    options->backend = variable("REGROUP_BACKEND");
  for (const char* name : {"REGROUP_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
    if (!options->interface.has_value() && variable(name) != nullptr) options->interface = variable(name);
  }
  if (!options->tuning.has_value() && variable("REGROUP_TUNING") != nullptr)
    options->tuning = variable("REGROUP_TUNING");
  if (options->store != nullptr || options->store_url.has_value()) return Status();
  if (variable("REGROUP_STORE") != nullptr) {
    options->store_url = variable("REGROUP_STORE");
  } else if (variable("MASTER_ADDR") != nullptr && variable("MASTER_PORT") != nullptr) {
    std::string host = variable("MASTER_ADDR");
    if (host.find(':') != std::string::npos) host = '[' + host + ']';
    options->store_url = "tcp://" + host + ":" + variable("MASTER_PORT");
  } else if (*options->size > 1 || options->newcomer) {
    return Status(StatusCode::invalid_argument,
                  "joining: no store is given, and neither REGROUP_STORE nor MASTER_ADDR and MASTER_PORT in the "
                  "environment names one");
  }
  return Status();
}

// The host that a store's address names, from which the address to be reached at follows.
std::string host_of(const std::optional<std::string>& url) {
  constexpr std::string_view scheme = "tcp://";
  if (!url.has_value() || !url->starts_with(scheme)) return "";
  const auto parsed = net::parse_host_port(url->substr(scheme.size(), url->find('/', scheme.size()) - scheme.size()));
  return parsed.ok() ? parsed.value().host : "";
}

std::vector<Rank> first_members(Rank size) {
  std::vector<Rank> members(size);
  std::iota(members.begin(), members.end(), Rank{0});
  return members;
}

// What all lives of a group have in common on this member.
struct Common {
  backend::native::NativeOptions native;  // but for rank, size and times
  std::shared_ptr<Store> store;
};

Result<Life> begin_life(const Common& origin, const std::string& name, Rank rank, Rank size, base::Duration timeout,
                        uint64_t previous_epoch) {
  backend::native::NativeOptions native = origin.native;
  native.rank = rank;
  native.size = size;
  native.timeout = timeout;
  native.previous_epoch = previous_epoch;
  auto joined = backend::native::NativeBackend::join(
      native, backend::native::exchange_through(origin.store, "regroup/" + name, rank, size));
  if (!joined.ok()) return joined.status();
  return Life{std::move(joined).value(), first_members(size)};
}

Result<Life> rejoin(const Common& origin, const Membership& membership, uint64_t previous_epoch) {
  const auto timeout = membership.timeout.value_or(std::chrono::minutes(5));
  const base::Time began = base::Clock::now();
  Common next = origin;
  if (membership.store != nullptr) {
    next.store = membership.store;
  } else if (membership.store_url.has_value()) {
    auto connected = connect_store(*membership.store_url, timeout);
    if (!connected.ok()) return connected.status();
    next.store = std::move(connected).value();
    next.native.towards = host_of(membership.store_url);
  }
  return begin_life(next, membership.name, membership.rank, membership.size, timeout - (base::Clock::now() - began),
                    previous_epoch);
}

}  // namespace

Result<ProcessGroup> join(JoinOptions options) {
  if (Status status = complete(&options); !status.ok()) return status;
  const auto timeout = options.timeout.value_or(std::chrono::minutes(5));
  const base::Time began = base::Clock::now();

  Common origin;
  backend::native::NativeOptions& native = origin.native;
  native.interface = options.interface.value_or("");
  native.towards = host_of(options.store_url);
  native.host_label = options.host_label;
  native.cross_process_reads = options.cross_process_reads;
  native.threads = options.threads.value_or(0);
  if (options.liveness.has_value()) native.liveness = *options.liveness;
  if (const std::string backend = options.backend.value_or("auto"); backend != "auto" && backend != "native") {
    auto module = module::Module::load(backend);
    if (!module.ok()) return module.status();
    native.library = std::move(module).value();
  }
  const std::string wires = options.transport.value_or("auto");
  if (wires == "shm") {
    native.wires = backend::native::Wires::shm;
  } else if (wires == "tcp") {
    native.wires = backend::native::Wires::tcp;
  } else if (wires != "auto") {
    return Status(StatusCode::invalid_argument, "joining: transport \"" + wires + "\"; it takes auto, shm or tcp");
  }

  if (options.tuning.has_value() && !options.tuning->empty()) {
    auto tuning = backend::native::read_tuning(*options.tuning);
    if (!tuning.ok()) return tuning.status();
    native.tuning = std::move(tuning).value();
  }

  origin.store = options.store;
  if (origin.store == nullptr && options.store_url.has_value()) {
    auto connected = connect_store(*options.store_url, timeout);
    if (!connected.ok()) return connected.status();
    origin.store = std::move(connected).value();
  }
  if (origin.store == nullptr) origin.store = make_hash_store();
  std::string meeting = options.name;
  if (options.newcomer) {
    auto invitation = group::Lobby(*origin.store, options.name).ask(timeout);
    if (!invitation.ok()) return invitation.status();
    options.rank = invitation->rank;
    options.size = invitation->size;
    meeting = invitation->meeting;
  }
  auto life = begin_life(origin, meeting, *options.rank, *options.size, timeout - (base::Clock::now() - began), 0);
  if (!life.ok()) return life.status();
  const auto meet = [origin](const Membership& membership, uint64_t previous_epoch) {
    return rejoin(origin, membership, previous_epoch);
  };
  return ProcessGroup(
      std::make_shared<ProcessGroup::Impl>(std::move(life).value(), timeout, Origin{meet, origin.store, options.name}));
}

}  // namespace regroup
