// SPDX-License-Identifier: Apache-2.0
// A rank that somebody else starts: `regroup run -n 4 -- example_launched`. Rank, size and where to meet come from the
// environment. Passes a token round the ring; the last rank tells what it collected.
#include <cstdio>
#include <vector>

#include <regroup/regroup.h>

using namespace regroup;

int main() {
  Result<ProcessGroup> joined = join();
  if (!joined.ok()) {
    std::fprintf(stderr, "launched: %s\nStart it as: regroup run -n 4 -- example_launched\n",
                 joined.status().to_string().c_str());
    return 1;
  }
  ProcessGroup& group = joined.value();
  const Rank rank = group.rank(), size = group.size();

  try {
    std::vector<int> token(1);
    if (rank > 0) check(group.run(receive(into(token), rank - 1)));
    token[0] += static_cast<int>(rank) + 1;
    if (rank + 1 < size) check(group.run(send(from(token), rank + 1)));

    // Everyone learns what the last one holds.
    check(group.run(broadcast(in_place(token), size - 1)));
    if (rank == size - 1) std::printf("%u ranks collected %d\n", size, token[0]);
    return token[0] == static_cast<int>(size * (size + 1) / 2) ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "launched: rank %u: %s\n", rank, error.what());
    return 1;
  }
}
