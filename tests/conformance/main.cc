// SPDX-License-Identifier: Apache-2.0
// The conformance suite without the command line tool, whose libraries take minutes to build with sanitizers.
// Usage: conformance_tests [RANKS…]: numbers of ranks (default: all). The output is that of `regroup conformance
// --json`.
#include <cstdio>
#include <cstdlib>

#include "conformance/suite.h"

int main(int argc, char** argv) {
  using namespace regroup::conformance;
  SuiteOptions options;
  for (int i = 1; i < argc; ++i) {
    options.ranks.push_back(static_cast<regroup::Rank>(std::strtoul(argv[i], nullptr, 10)));
  }
  options.failure = [](const Item& item, uint64_t seed, const std::string& text) {
    const std::string id = id_of(item);
    std::fprintf(stderr, "FAILED %s\n  %s\n  again: regroup conformance --seed %llu --case %s\n", id.c_str(),
                 text.c_str(), static_cast<unsigned long long>(seed), id.c_str());
  };
  const Summary summary = run_suite(options);
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(R"({"cases":%llu,"passed":%llu,"failed":%llu,"unsupported":%llu,"seconds":%.3f,"backends":["native"]})"
              "\n",
              number(summary.cases), number(summary.passed), number(summary.failed), number(summary.unsupported),
              summary.seconds);
  return summary.failed == 0 && summary.cases > 0 ? 0 : 1;
}
