// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <algorithm>
#include <vector>

#include "output.h"

namespace regroup::tool {

namespace {

void print_row(const std::string& name, double self_us, double total_us, uint64_t calls, double whole_us) {
  const double share = whole_us > 0 ? 100 / whole_us : 0;
  print("{:<24} {:>8.2f}% {:>11} {:>8.2f}% {:>11} {:>11} {:>8}\n", name, self_us * share, human_us(self_us),
        total_us * share, human_us(total_us), human_us(total_us / static_cast<double>(std::max<uint64_t>(1, calls))),
        calls);
}

}  // namespace

std::string human_us(double us) {
  if (us < 1000) return fmt::format("{:.2f} us", us);
  if (us < 1e6) return fmt::format("{:.3f} ms", us / 1e3);
  return fmt::format("{:.3f} s", us / 1e6);
}

void print_profile(const Measured& measured) {
  std::vector<contest::Phase> phases;
  double inside = 0;
  for (const contest::Phase& phase : measured.phases) {
    if (phase.calls == 0) continue;
    phases.push_back(phase);
    inside += phase.us;
  }
  std::sort(phases.begin(), phases.end(), [](const contest::Phase& a, const contest::Phase& b) { return a.us > b.us; });
  const std::string line(90, '-');
  print("{}\n{:<24} {:>9} {:>11} {:>9} {:>11} {:>11} {:>8}\n{}\n", line, "Name", "Self %", "Self", "Total %", "Total",
        "Average", "Calls", line);
  print_row("iteration", std::max(0.0, measured.whole_us - inside), measured.whole_us, measured.iterations,
            measured.whole_us);
  for (const contest::Phase& phase : phases)
    print_row(std::string("  ") + phase.name, phase.us, phase.us, phase.calls, measured.whole_us);
  print("{}\n", line);
}

}  // namespace regroup::tool
