// SPDX-License-Identifier: Apache-2.0
#include "base/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <fstream>
#include <string>

namespace regroup::base {

namespace {

constexpr unsigned kMostNodes = 1024;  // as many as the kernel can be built for
constexpr unsigned kWordBits = sizeof(unsigned long) * CHAR_BIT;

bool parse_number(std::string_view text, unsigned* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number < kMostNodes;
}

}  // namespace

std::vector<unsigned> parse_node_list(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::vector<unsigned> nodes;
  while (!text.empty()) {
    const std::string_view range = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), range.size() + 1));
    const size_t dash = range.find('-');
    unsigned first = 0, last = 0;
    if (!parse_number(range.substr(0, dash), &first)) return {};
    last = first;
    if (dash != std::string_view::npos && !parse_number(range.substr(dash + 1), &last)) return {};
    if (last < first || (!nodes.empty() && first <= nodes.back())) return {};
    for (unsigned node = first; node <= last; ++node) nodes.push_back(node);
  }
  return nodes;
}

unsigned memory_nodes() {
  static const unsigned count = [] {
    std::ifstream file("/sys/devices/system/node/online");
    std::string line;
    std::getline(file, line);
    const size_t nodes = parse_node_list(line).size();
    return nodes > 0 ? static_cast<unsigned>(nodes) : 1u;
  }();
  return count;
}

std::optional<unsigned> current_node() {
  unsigned core = 0, node = 0;
  if (syscall(SYS_getcpu, &core, &node, nullptr) != 0) return std::nullopt;
  return node;
}

bool prefer_node(void* data, uint64_t bytes, unsigned node) {
  unsigned long mask[kMostNodes / kWordBits] = {};
  if (node >= kMostNodes) return false;
  mask[node / kWordBits] = 1ul << node % kWordBits;
  // The kernel takes one bit less than it is told that there are.
  return syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask, kMostNodes + 1, 0) == 0;
}

void prefer_own_node(void* data, uint64_t bytes) {
  if (memory_nodes() == 1) return;
  int policy = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT) return;
  if (const auto node = current_node()) (void)prefer_node(data, bytes, *node);
}

}  // namespace regroup::base
