// SPDX-License-Identifier: Apache-2.0
#include "module/trial.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/fd.h"
#include "module/module.h"

namespace regroup::module {

namespace {

constexpr std::string_view kPrefix = "regroup-";
constexpr std::string_view kSuffix = ".so";
constexpr auto kMostTime = std::chrono::seconds(10);
constexpr size_t kMostText = 4096;
constexpr char kSeparator = '\n';  // between version and reason

void write_all(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote <= 0) return;
    at += static_cast<size_t>(wrote);
  }
}

// In the child.
std::string version_and_reason(const std::string& name, const std::string& path) {
  std::string error;
  const regroup_module* table = table_in(path, &error);
  if (table == nullptr && !error.empty()) return kSeparator + error;
  auto module = Module::from_table(name, table);
  if (module.ok()) return (*module)->version() + kSeparator;
  const std::string& message = module.status().message();
  const size_t reason = message.find(": ");
  return kSeparator + (reason == std::string::npos ? message : message.substr(reason + 2));
}

// What the child wrote until it closed the pipe. False where it took too long.
bool read_all(int fd, std::string* text) {
  const base::Time until = base::deadline_after(kMostTime);
  while (text->size() < kMostText) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - base::Clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    char buffer[512];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got > 0) text->append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return true;
  }
  return true;
}

Trial run_trial(const std::string& name, const std::string& path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {"", std::string("no pipe: ") + std::strerror(errno)};
  const base::Fd from(ends[0]);
  base::Fd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {"", std::string("no process to try it in: ") + std::strerror(errno)};
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) ::signal(signal, SIG_DFL);
    write_all(to.get(), version_and_reason(name, path));
    ::_exit(0);
  }
  to = base::Fd();
  std::string text;
  const bool in_time = read_all(from.get(), &text);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return {"", "it could not be tried out within ten seconds"};
  if (WIFSIGNALED(status)) {
    return {"", "it crashed when it was loaded (signal " + std::to_string(WTERMSIG(status)) + ")"};
  }
  const size_t cut = text.find(kSeparator);
  if (cut == std::string::npos) return {"", "it ended the process that loaded it"};
  return {text.substr(0, cut), text.substr(cut + 1)};
}

// Of the shared library that this function is in, or of the program where it is linked in.
std::filesystem::path own_folder() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::canonical(info.dli_fname, ignored);
  if (path.empty()) path = std::filesystem::canonical("/proc/self/exe", ignored);
  return path.parent_path();
}

}  // namespace

std::vector<std::string> search_path() {
  std::vector<std::string> folders;
  if (const char* given = std::getenv("REGROUP_MODULES"); given != nullptr) {
    std::string text = given;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(':', at), text.size());
      if (end > at) folders.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  if (const std::filesystem::path own = own_folder(); !own.empty()) {
    folders.push_back((own / "regroup").string());
    if (own.filename() != "lib") folders.push_back((own.parent_path() / "lib" / "regroup").string());
  }
  return folders;
}

std::string file_name(const std::string& name) { return std::string(kPrefix) + name + std::string(kSuffix); }

std::string file_of(const std::string& name) {
  // A name is no path.
  if (name.empty() || name.find('/') != std::string::npos) return "";
  for (const std::string& folder : search_path()) {
    std::error_code ignored;
    const std::filesystem::path path = std::filesystem::path(folder) / file_name(name);
    if (std::filesystem::is_regular_file(path, ignored)) return path.string();
  }
  return "";
}

const regroup_module* table_in(const std::string& path, std::string* error) {
  // Local: two MPIs define the same names.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* said = ::dlerror();
    if (error != nullptr) *error = said != nullptr ? said : "the loader refused it";
    return nullptr;
  }
  using Get = const regroup_module* (*)(uint32_t);
  const auto get = reinterpret_cast<Get>(::dlsym(handle, REGROUP_MODULE_ENTRY));
  if (get == nullptr) {
    if (error != nullptr) *error = std::string("it has no function ") + REGROUP_MODULE_ENTRY;
    return nullptr;
  }
  return get(REGROUP_MODULE_ABI);
}

Trial try_out(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Trial> known;  // by path
  const std::string path = file_of(name);
  std::lock_guard lock(mutex);
  if (const auto found = known.find(path); found != known.end()) return found->second;
  return known[path] = run_trial(name, path);
}

std::vector<Availability> known_modules() {
  std::map<std::string, Availability> found;
  for (const std::string& folder : search_path()) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename().string();
      if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
      const std::string name = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
      if (name.empty() || found.contains(name)) continue;
      const Trial trial = try_out(name);
      found[name] = {name, trial.version, trial.reason.empty(), trial.reason};
    }
  }
  std::vector<Availability> all;
  for (auto& [name, availability] : found) all.push_back(std::move(availability));
  return all;
}

}  // namespace regroup::module
