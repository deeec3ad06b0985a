// SPDX-License-Identifier: Apache-2.0
// Placing memory on nodes, as far as a machine with one node can show it.
#include "base/numa.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace regroup::base {
namespace {

using Nodes = std::vector<unsigned>;

TEST(Numa, ReadsNodeLists) {
  EXPECT_EQ(parse_node_list("0\n"), Nodes{0});
  EXPECT_EQ(parse_node_list("0-3"), (Nodes{0, 1, 2, 3}));
  EXPECT_EQ(parse_node_list("0-1,3,8-9\n"), (Nodes{0, 1, 3, 8, 9}));
  EXPECT_EQ(parse_node_list("1023"), Nodes{1023});
  for (const char* wrong : {"", "\n", "a", ",0", "1-", "-1", "3-1", "1,1", "2,1", "0-4294967295", "1024", "0 1"}) {
    EXPECT_EQ(parse_node_list(wrong), Nodes{}) << wrong;
  }
}

TEST(Numa, KnowsWhereItIs) {
  EXPECT_GE(memory_nodes(), 1u);
  const auto here = current_node();
  if (memory_nodes() > 1 || !here) return;
  EXPECT_EQ(*here, 0u);
}

// The policy of the page at `data`, and its nodes; −1 where the kernel does not tell.
int policy_at(void* data, unsigned long* nodes) {
  unsigned long mask[17] = {};
  int policy = -1;
  if (syscall(SYS_get_mempolicy, &policy, mask, 1025, data, MPOL_F_ADDR) != 0) return -1;
  *nodes = mask[0];
  return policy;
}

// A shared file of a few pages that do not exist yet.
struct File {
  static constexpr uint64_t kBytes = 16 << 12;
  File() : fd(memfd_create("regroup test", MFD_CLOEXEC)) {
    if (ftruncate(fd, kBytes) == 0) data = map();
  }
  ~File() {
    munmap(data, kBytes);
    close(fd);
  }
  void* map() const { return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); }
  int fd;
  void* data = MAP_FAILED;
};

TEST(Numa, AsksForANodeThatTheFileRemembers) {
  const File file;
  ASSERT_NE(file.data, MAP_FAILED);
  if (!prefer_node(file.data, File::kBytes, 0)) GTEST_SKIP() << "the kernel does not place memory";
  unsigned long nodes = 0;
  const int policy = policy_at(file.data, &nodes);
  if (policy < 0) GTEST_SKIP() << "the kernel does not tell policies";
  EXPECT_EQ(policy, MPOL_PREFERRED);
  EXPECT_EQ(nodes, 1u);
  // Through another mapping, too: that is why a segment may be placed before it is mapped for good.
  void* again = file.map();
  ASSERT_NE(again, MAP_FAILED);
  EXPECT_EQ(policy_at(again, &nodes), MPOL_PREFERRED);
  munmap(again, File::kBytes);
  EXPECT_FALSE(prefer_node(file.data, File::kBytes, 4000));
  static_cast<char*>(file.data)[5] = 1;
}

TEST(Numa, LeavesMemoryAloneWhereThereIsOneNode) {
  if (memory_nodes() > 1) GTEST_SKIP() << "there are several nodes";
  const File file;
  ASSERT_NE(file.data, MAP_FAILED);
  prefer_own_node(file.data, File::kBytes);
  unsigned long nodes = 0;
  const int policy = policy_at(file.data, &nodes);
  if (policy < 0) GTEST_SKIP() << "the kernel does not tell policies";
  EXPECT_EQ(policy, MPOL_DEFAULT);
}

}  // namespace
}  // namespace regroup::base
