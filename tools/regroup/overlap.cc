// SPDX-License-Identifier: Apache-2.0
#include "overlap.h"

#include <algorithm>
#include <chrono>

#include "median.h"

namespace regroup::tool {

namespace {

constexpr double kEnough = 2000;  // µs that give a rate
constexpr uint64_t kMostRounds = uint64_t{1} << 40;

}  // namespace

// A chain: each round needs the one before, so that it takes as long whatever else the core could do at once.
uint64_t Computation::spend(uint64_t rounds) {
  uint64_t word = 88172645463325252;
  for (uint64_t round = 0; round < rounds; ++round) {
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
  }
  // So that the compiler cannot leave it out.
  volatile uint64_t result = word;
  return result;
}

void Computation::last(double us) {
  double best = 0;  // rounds a µs: the quickest of several, for others may have interrupted
  for (int time = 0; time < 5; ++time) {
    double took = 0;
    for (uint64_t rounds = 1024; took < kEnough && rounds < kMostRounds; rounds *= 2) {
      const auto begin = std::chrono::steady_clock::now();
      (void)spend(rounds);
      took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
      if (took > 0) best = std::max(best, static_cast<double>(rounds) / took);
    }
  }
  rounds_ = static_cast<uint64_t>(us * best);
}

double overlap_share(const std::vector<double>& communication_us, const std::vector<double>& computation_us,
                     const std::vector<double>& together_us) {
  const size_t rounds = std::min({communication_us.size(), computation_us.size(), together_us.size()});
  std::vector<double> shares;
  for (size_t round = 0; round < rounds; ++round) {
    const double shorter = std::min(communication_us[round], computation_us[round]);
    const double saved = communication_us[round] + computation_us[round] - together_us[round];
    if (shorter > 0) shares.push_back(saved / shorter);
  }
  return std::clamp(median(shares), 0.0, 1.0);
}

}  // namespace regroup::tool
