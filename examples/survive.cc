// SPDX-License-Identifier: Apache-2.0
// Training that outlives its members: four ranks fit a line, one is killed on the way, the other three go on, a new one
// comes in, and all finish with the same weights.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <regroup/regroup.h>

using namespace regroup;
using Weights = std::array<double, 2>;  // y = w₀ + w₁ x

// This rank's gradient of the squared error, over its own points of y = 3 + 2x.
static Weights gradient(const Weights& w, Rank rank, int step) {
  const double x = ((rank * 31 + step * 17) % 100) / 100.0;
  const double error = w[0] + w[1] * x - (3 + 2 * x);
  return {2 * error, 2 * error * x};
}

static int bell[2];  // a pipe: rings when a rank is missing

static int train(ProcessGroup& group, bool newcomer) {
  struct {
    double step = 0;
    Weights w{};
  } state;
  if (newcomer) check(group.run(broadcast(in_place(&state.step, 3), 0)));  // where the others are
  const bool victim = !newcomer && group.rank() == 2;
  while (state.step < 4000) {
    if (victim && state.step == 1000) raise(SIGKILL);
    Weights g = gradient(state.w, group.rank(), static_cast<int>(state.step));
    // All or nothing: after a failure every survivor is at the same step with the same weights.
    const Status status = group.run(all_reduce(in_place(g), ReduceOp::average, {.atomic = true}));
    if (!status.ok()) {
      if (group.rank() == 0) std::printf("step %g: %s\n", state.step, status.to_string().c_str());
      check(group.shrink());
      if (group.rank() == 0 && write(bell[1], "!", 1) != 1) return 4;
      if (group.rank() == 0)
        std::printf("step %g: %u ranks go on in epoch %lu\n", state.step, group.size(), group.epoch());
      continue;
    }
    for (int i : {0, 1}) state.w[i] -= 0.1 * g[i];
    ++state.step;
    if (static_cast<int>(state.step) % 100 != 0) continue;  // now and then: does somebody wait to come in?
    const Rank before = group.size();
    check(group.grow());
    if (group.size() == before) continue;
    if (group.rank() == 0) std::printf("step %g: %u ranks since a new one came\n", state.step, group.size());
    check(group.run(broadcast(in_place(&state.step, 3), 0)));
  }
  std::array<double, 8> all{};
  check(group.run(all_gather(from(state.w), into(all.data(), 2 * group.size()))));
  for (Rank r = 1; r < group.size(); ++r) {
    if (all[2 * r] != all[0] || all[2 * r + 1] != all[1]) return 1;
  }
  if (group.rank() == 0)
    std::printf("all %u ranks hold y = %.4f + %.4f x: all weights equal\n", group.size(), state.w[0], state.w[1]);
  return group.size() == 4 ? 0 : 2;
}

int main() {
  const std::string store = "file:///tmp/regroup-survive-" + std::to_string(getpid());
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (pipe(bell) != 0) return 5;
  if (fork() == 0) {  // the one that comes when it is needed
    char ring;
    if (read(bell[0], &ring, 1) != 1) std::_Exit(6);
    auto group = join({.store_url = store, .newcomer = true});
    std::_Exit(group.ok() ? train(*group, true) : 3);
  }
  const Status status = run_forked(4, [](ProcessGroup& group) { return train(group, false); }, {.store_url = store});
  int newcomer = -1;
  wait(&newcomer);
  unlink(store.c_str() + 7);
  std::printf("what became of the first four: %s\n", status.to_string().c_str());
  return status.ranks() == std::vector<Rank>{2} && newcomer == 0 ? 0 : 1;
}
