// SPDX-License-Identifier: Apache-2.0
// On which memory node pages lie, by system calls alone. Where there is one node, or the kernel refuses, nothing is
// done and nothing is lost but speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace regroup::base {

// "0-1,3" as the kernel writes sets of nodes, ascending; empty where the text is no such list.
std::vector<unsigned> parse_node_list(std::string_view text);

// Nodes of this machine that are online; read once.
unsigned memory_nodes();

// The node of the core that this thread is on.
std::optional<unsigned> current_node();

// Asks that pages of [data, data + bytes) which do not exist yet are made on `node` while it has room. `data` is the
// beginning of a page. For a shared mapping of a file the file keeps it, whoever makes the page. False: refused.
bool prefer_node(void* data, uint64_t bytes, unsigned node);

// Likewise, on this thread's own node: only where there are several, and where whoever started the process has not
// chosen for all of its memory (`numactl`).
void prefer_own_node(void* data, uint64_t bytes);

}  // namespace regroup::base
