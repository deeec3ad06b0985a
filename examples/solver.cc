// SPDX-License-Identifier: Apache-2.0
// The heat equation on a rod, u ← u + k (u_left − 2 u + u_right), cut into pieces: each rank, a process of its own,
// holds some cells and a halo cell on either side, which its neighbours fill before each step. After some steps all
// ranks add up how much changed, and stop together. Every cell is computed as one process alone would: the results are
// equal.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <regroup/regroup.h>

using namespace regroup;

namespace {

constexpr uint64_t kCells = 43;  // no multiple of the ranks
constexpr Rank kRanks = 4;
constexpr double kRate = 0.25;
constexpr int kMostSteps = 20000;
constexpr int kStepsBetweenLooks = 100;
constexpr double kEnough = 1e-4;  // of change in one step, over all cells

// Cells 1 … n of `u` are this piece's; 0 and n + 1 are its halo. Returns how much changed.
double step(std::vector<double>& u, std::vector<double>& scratch) {
  double change = 0;
  for (size_t i = 1; i + 1 < u.size(); ++i) {
    scratch[i] = u[i] + kRate * (u[i - 1] - 2 * u[i] + u[i + 1]);
    change += std::fabs(scratch[i] - u[i]);
  }
  std::copy(scratch.begin() + 1, scratch.end() - 1, u.begin() + 1);
  return change;
}

// The ends of the rod are kept at 1 and 0, in the halos where nobody is.
std::vector<double> piece(uint64_t cells, bool leftmost) {
  std::vector<double> u(cells + 2, 0.0);
  if (leftmost) u[0] = 1.0;
  return u;
}

// Runs `steps` steps.
std::vector<double> alone(int steps) {
  std::vector<double> u = piece(kCells, true), scratch(u.size());
  for (int i = 0; i < steps; ++i) step(u, scratch);
  return {u.begin() + 1, u.end() - 1};
}

// Sends the outermost cells to the neighbours and takes theirs, all at once.
Operation exchange_halos(std::vector<double>& u, Rank rank, Rank size) {
  const size_t n = u.size() - 2;
  std::vector<Operation> messages;
  if (rank > 0) {
    messages.push_back(send(from(&u[1], 1), rank - 1));
    messages.push_back(receive(into(&u[0], 1), rank - 1));
  }
  if (rank + 1 < size) {
    messages.push_back(send(from(&u[n], 1), rank + 1));
    messages.push_back(receive(into(&u[n + 1], 1), rank + 1));
  }
  return batch(std::move(messages));
}

int solve(ProcessGroup& group) {
  const Rank rank = group.rank(), size = group.size();
  Counts counts(size, kCells / size);
  for (Rank r = 0; r < kCells % size; ++r) ++counts[r];
  std::vector<double> u = piece(counts[rank], rank == 0), scratch(u.size());

  // Planned once, run in every step: the operation holds views of `u`.
  Prepared halos = group.prepare(exchange_halos(u, rank, size)).value_or_throw();
  int steps = 0;
  double change = 0;
  do {
    check(halos.run());
    change = step(u, scratch);
    if (++steps % kStepsBetweenLooks == 0) check(group.run(all_reduce(in_place(&change, 1))));
  } while (steps < kMostSteps && (steps % kStepsBetweenLooks != 0 || change > kEnough));

  std::vector<double> rod(rank == 0 ? kCells : 0);
  const From mine = from(&u[1], counts[rank]);
  check(group.run(rank == 0 ? gather(mine, into(rod), counts, 0) : gather(mine, counts, 0)));
  if (rank != 0) return 0;
  const bool equal = rod == alone(steps);
  std::printf("%u ranks, %d steps, change %g: %s as one process alone\n", size, steps, change,
              equal ? "the same, bit by bit," : "NOT the same");
  return equal ? 0 : 1;
}

}  // namespace

int main() {
  const Status status = run_forked(kRanks, solve);
  if (!status.ok()) std::fprintf(stderr, "solver: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
