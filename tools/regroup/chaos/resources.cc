// SPDX-License-Identifier: Apache-2.0
#include "chaos/resources.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace regroup::tool::chaos {

namespace {

namespace files = std::filesystem;

// "socket" of "socket:[1234]": the numbers differ from time to time.
std::string kind_of(const std::string& target) { return target.substr(0, target.find(":[")); }

}  // namespace

Resources Resources::count() {
  Resources now;
  std::error_code error;
  for (const auto& entry : files::directory_iterator("/proc/self/fd", error)) {
    const std::string target = files::read_symlink(entry.path(), error).string();
    // The one that reads this folder.
    if (error || target.starts_with("/proc/")) continue;
    ++now.held_["descriptor of " + kind_of(target)];
  }
  for (const auto& entry : files::directory_iterator("/proc/self/task", error)) {
    ++now.held_["thread"];
    std::ifstream children(entry.path() / "children");
    for (std::string child; children >> child;) ++now.held_["child"];
  }
  // All of the library's segments are shared mappings; private ones come and go with the heap and the stacks.
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device, inode, path;
    words >> range >> access >> offset >> device >> inode >> path;
    if (access.size() == 4 && access[3] == 's') ++now.held_["mapping of " + path];
  }
  return now;
}

std::string Resources::beyond(const Resources& before) const {
  std::string text;
  for (const auto& [what, number] : held_) {
    const auto then = before.held_.find(what);
    const int more = number - (then == before.held_.end() ? 0 : then->second);
    if (more > 0) text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", more, what);
  }
  return text;
}

}  // namespace regroup::tool::chaos
