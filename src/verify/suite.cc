// SPDX-License-Identifier: Apache-2.0
#include "verify/suite.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "verify/cases.h"

namespace regroup::verify {

using algorithms::Algorithm;

namespace {

Reads allowed(Algorithm::Reads reads) {
  switch (reads) {
    case Algorithm::Reads::none:
      return Reads::none;
    case Algorithm::Reads::inside_hosts:
      return Reads::inside_hosts;
    case Algorithm::Reads::everywhere:
      break;
  }
  return Reads::everywhere;
}

class Suite {
 public:
  Suite(Rank first, Rank last, const SuiteOptions& options) : first_(first), options_(options) {
    jobs_ = first <= last ? options.algorithms.size() * (last - first + 1) : 0;
  }

  SuiteResult run() {
    const base::Time begin = base::Clock::now();
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.threads; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    total_.seconds = std::chrono::duration<double>(base::Clock::now() - begin).count();
    return std::move(total_);
  }

 private:
  // One job is one algorithm at one size.
  void work() {
    for (;;) {
      const size_t job = next_++;
      if (job >= jobs_) return;
      SuiteResult part;
      const Algorithm& algorithm = options_.algorithms[job % options_.algorithms.size()];
      const Rank size = first_ + static_cast<Rank>(job / options_.algorithms.size());
      for_each_case(algorithm, size, [&](const Case& test_case) {
        if (base::Clock::now() < options_.deadline) {
          prove(algorithm, test_case, part);
        } else {
          part.complete = false;
        }
      });
      add(part);
    }
  }

  void prove(const Algorithm& algorithm, const Case& test_case, SuiteResult& part) const {
    const std::vector<plan::Schedule> schedules = plan_all(algorithm, test_case);
    for (const bool in_place : {false, true}) {
      if (in_place && !(algorithm.in_place && test_case.in_place_possible)) continue;
      const Member member{test_case.problems, in_place, algorithm.single_fold && reduces(algorithm.collective), false};
      const std::vector<Finding> findings = verify(member, schedules, {.reads = allowed(algorithm.reads)});
      ++part.sets;
      part.schedules += schedules.size();
      for (const plan::Schedule& schedule : schedules) part.steps += schedule.steps().size();
      if (findings.empty()) {
        ++part.proved;
        continue;
      }
      ++part.failed;
      if (part.failures.size() >= options_.most_failures) continue;
      std::string text = std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + ", " +
                         test_case.text + (in_place ? ", in place" : "");
      for (const Finding& finding : findings) text += "\n  " + to_string(finding);
      part.failures.push_back(std::move(text));
    }
  }

  void add(SuiteResult& part) {
    const std::lock_guard lock(mutex_);
    total_.sets += part.sets;
    total_.schedules += part.schedules;
    total_.steps += part.steps;
    total_.proved += part.proved;
    total_.failed += part.failed;
    total_.complete = total_.complete && part.complete;
    for (std::string& text : part.failures) {
      if (total_.failures.size() < options_.most_failures) total_.failures.push_back(std::move(text));
    }
    if (options_.progress) options_.progress(total_);
  }

  const Rank first_;
  const SuiteOptions& options_;
  size_t jobs_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  SuiteResult total_;
};

}  // namespace

SuiteResult run_suite(Rank first, Rank last, const SuiteOptions& options) { return Suite(first, last, options).run(); }

}  // namespace regroup::verify
