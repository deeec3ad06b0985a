// SPDX-License-Identifier: Apache-2.0
// Four ranks, as threads of this process, exchange lists of buffers and add a vector up.
#include <cstdio>
#include <vector>

#include <regroup/regroup.h>

using namespace regroup;

static void rank_main(ProcessGroup& group) {
  const Rank rank = group.rank(), size = group.size();

  // A buffer for each rank, of any sizes: rank r gives r + 1 numbers to each other rank.
  std::vector<std::vector<float>> inputs(size), outputs(size);
  for (Rank peer = 0; peer < size; ++peer) {
    inputs[peer].assign(rank + 1, static_cast<float>(10 * rank + peer));
    outputs[peer].resize(peer + 1);
  }
  check(group.run(all_to_all(from(inputs), into(outputs))));

  // Started, it makes progress by itself; wait() says how it ended.
  std::vector<double> gradients(1000, rank);
  Work work = group.start(all_reduce(in_place(gradients), ReduceOp::average));
  check(work.wait());

  // An error is a value; check() makes it an exception, which run_local() hands to its caller.
  for (Rank peer = 0; peer < size; ++peer) {
    if (outputs[peer] != std::vector<float>(peer + 1, static_cast<float>(10 * peer + rank)))
      check(Status(StatusCode::internal, "all_to_all is wrong"));
  }
  if (gradients.front() != 1.5 || gradients.back() != 1.5) check(Status(StatusCode::internal, "all_reduce is wrong"));

  // One after the other, for a readable output.
  for (Rank turn = 0; turn < size; ++turn) {
    if (turn == rank) {
      std::printf("rank %u of %u, %s:", rank, size, group.description().c_str());
      for (Rank peer = 0; peer < size; ++peer)
        std::printf(" %zu × %g from rank %u,", outputs[peer].size(), static_cast<double>(outputs[peer][0]), peer);
      std::printf(" average %g\n", gradients[0]);
    }
    check(group.run(barrier()));
  }
}

int main() {
  const Status status = run_local(4, rank_main);
  if (!status.ok()) std::fprintf(stderr, "quickstart: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
