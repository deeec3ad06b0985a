// SPDX-License-Identifier: Apache-2.0
#include "verify/suite.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
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
    if (first <= last && !options.algorithms.empty()) jobs_ = jobs_of_size() * (last - first + 1);
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
  // One algorithm at one size each; and last, the batches.
  size_t jobs_of_size() const { return options_.algorithms.size() + 1; }

  void work() {
    for (;;) {
      const size_t job = next_++;
      if (job >= jobs_) return;
      SuiteResult part;
      const size_t index = job % jobs_of_size();
      const Rank size = first_ + static_cast<Rank>(job / jobs_of_size());
      if (index < options_.algorithms.size()) {
        prove_algorithm(options_.algorithms[index], size, part);
      } else {
        prove_batches(size, part);
      }
      add(part);
    }
  }

  bool in_time(SuiteResult& part) const {
    if (base::Clock::now() >= options_.deadline) part.complete = false;
    return part.complete;
  }

  void prove_algorithm(const Algorithm& algorithm, Rank size, SuiteResult& part) const {
    for_each_case(algorithm, size, [&](const Case& test_case) {
      if (!in_time(part)) return;
      const std::vector<plan::Schedule> schedules = plan_all(algorithm, test_case);
      for (const bool in_place : {false, true}) {
        if (in_place && !(algorithm.in_place && test_case.in_place_possible)) continue;
        const auto findings =
            verify(expectation(algorithm, test_case.problems, in_place), schedules, expectation(algorithm));
        count(schedules, findings, part);
        if (!findings.empty()) keep(describe(algorithm, test_case, in_place), findings, part);
      }
    });
  }

  void prove_batches(Rank size, SuiteResult& part) const {
    std::mt19937_64 random(size);
    for (uint32_t i = 0; i < options_.batches && in_time(part); ++i) {
      const std::vector<BatchMember> batch = random_batch(options_.algorithms, size, random);
      if (batch.empty()) continue;
      std::vector<Member> members;
      Options expected{.reads = Reads::none};
      for (const BatchMember& member : batch) {
        members.push_back(expectation(*member.algorithm, member.test_case.problems, member.in_place));
        expected.reads = std::max(expected.reads, expectation(*member.algorithm).reads);
      }
      const std::vector<plan::Schedule> schedules = plan_all(batch);
      const auto findings = verify(members, schedules, expected);
      count(schedules, findings, part);
      if (findings.empty()) continue;
      std::string text = "batch:";
      for (const BatchMember& member : batch) {
        text += "\n  - " + describe(*member.algorithm, member.test_case, member.in_place);
      }
      keep(std::move(text), findings, part);
    }
  }

  static void count(std::span<const plan::Schedule> schedules, std::span<const Finding> findings, SuiteResult& part) {
    ++part.sets;
    ++(findings.empty() ? part.proved : part.failed);
    part.schedules += schedules.size();
    for (const plan::Schedule& schedule : schedules) part.steps += schedule.steps().size();
  }

  static std::string describe(const Algorithm& algorithm, const Case& test_case, bool in_place) {
    return std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + ", " + test_case.text +
           (in_place ? ", in place" : "");
  }

  void keep(std::string text, std::span<const Finding> findings, SuiteResult& part) const {
    if (part.failures.size() >= options_.most_failures) return;
    for (const Finding& finding : findings) text += "\n  " + to_string(finding);
    part.failures.push_back(std::move(text));
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
  size_t jobs_ = 0;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  SuiteResult total_;
};

}  // namespace

Member expectation(const Algorithm& algorithm, std::span<const plan::Problem> problems, bool in_place) {
  return {problems, in_place, algorithm.single_fold && reduces(algorithm.collective), false};
}

Options expectation(const Algorithm& algorithm) { return {.reads = allowed(algorithm.reads)}; }

SuiteResult run_suite(Rank first, Rank last, const SuiteOptions& options) { return Suite(first, last, options).run(); }

}  // namespace regroup::verify
