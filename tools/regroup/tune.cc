// SPDX-License-Identifier: Apache-2.0
#include "tune.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "accuracy.h"
#include "algorithms/tuning.h"
#include "arguments.h"
#include "output.h"
#include "profile.h"
#include "verbs.h"

namespace regroup::tool {

namespace {

using algorithms::Algorithm;

// A challenger has to be so much quicker than the built-in choice: less is noise, and not worth a row.
constexpr double kClearly = 0.95;
constexpr double kSeconds = 0.1;  // for an algorithm at a size, unless iterations are given
constexpr uint64_t kLeastBytes = 1 << 10;
constexpr unsigned kStep = 4;  // from one size to the next

std::vector<uint64_t> ladder(uint64_t most) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = std::min(kLeastBytes, most); bytes <= most; bytes *= kStep) sizes.push_back(bytes);
  return sizes;
}

// Two sizes were measured: up to which the first one's winner is taken. Halfway, as sizes go.
uint64_t between(uint64_t bytes) { return bytes * 2; }

std::string range(uint64_t up_to) {
  if (up_to == algorithms::kAnySize) return "any";
  if (up_to % (1 << 20) == 0) return fmt::format("{}M", up_to >> 20);
  return up_to % 1024 == 0 ? fmt::format("{}K", up_to >> 10) : fmt::format("{}", up_to);
}

// One algorithm at one size.
struct Score {
  const Algorithm* algorithm;
  double p50_us;
};

// Who is to be taken at a size: the best of all, and the best of those that fold once, for calls that need that.
struct Winners {
  Score best, once;
  bool operator==(const Winners& other) const {
    return best.algorithm == other.best.algorithm && once.algorithm == other.once.algorithm;
  }
};

class Tuner {
 public:
  explicit Tuner(const TuneOptions& tuning) : tuning_(tuning) {}

  int run() {
    // Noticed now, and not after the minutes of measuring.
    if (!std::ofstream(unfinished())) return fail(fmt::format("cannot write {}", unfinished()));
    for (const Collective collective : collectives()) {
      for (const std::string& transport : tuning_.transports) {
        for (const uint32_t ranks : rank_counts()) {
          if (std::string problem = measure_one(collective, transport, ranks); !problem.empty()) return fail(problem);
        }
      }
    }
    if (std::string problem = write(); !problem.empty()) return fail(problem);
    report();
    return kWorked;
  }

 private:
  int fail(const std::string& problem) {
    std::error_code ignored;
    std::filesystem::remove(unfinished(), ignored);
    note("regroup bench: {}\n", problem);
    return kFailed;
  }

  std::string unfinished() const { return tuning_.output + ".unfinished"; }

  std::vector<Collective> collectives() const {
    if (!tuning_.collectives.empty()) return tuning_.collectives;
    std::vector<Collective> all;
    for (const Algorithm& algorithm : algorithms::catalogue()) {
      if (std::find(all.begin(), all.end(), algorithm.collective) == all.end()) all.push_back(algorithm.collective);
    }
    return all;
  }

  std::vector<uint32_t> rank_counts() const {
    if (!tuning_.ranks.empty()) return tuning_.ranks;
    std::vector<uint32_t> counts = {2, 4, std::clamp(std::thread::hardware_concurrency(), 2u, contest::kMostRanks)};
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
  }

  // The problem; empty: it went well.
  std::string measure_one(Collective collective, const std::string& transport, uint32_t ranks) {
    Measurement what = tuning_.what;
    what.call.collective = collective;
    what.call.ranks = ranks;
    what.call.transport = transport;
    what.call.size_agreed = true;
    what.call.tuning = nullptr;  // the table that is made replaces the built-in one, whatever REGROUP_TUNING names
    what.floor = false;
    what.seconds = kSeconds;
    what.sizes = collective == Collective::barrier ? std::vector<uint64_t>{0} : ladder(tuning_.most_bytes);
    what.call.bytes = what.sizes.front();
    what.algorithms.clear();
    for (const Algorithm& algorithm : algorithms::catalogue()) {
      if (algorithms::usable(algorithm, problem_of(what.call, 0), facts_of(what.call)))
        what.algorithms.emplace_back(algorithm.name);
    }
    if (!tuning_.json) print("{} among {} ranks, {}:\n", name(collective), ranks, transport);
    std::map<uint64_t, std::vector<Score>> scores;
    Progress bar(fmt::format("{} {} {}", name(collective), transport, ranks), "calls");
    const std::string problem = measure(
        what,
        [&](const Measured& measured) {
          bar.clear();
          take(what.call, measured, &scores[measured.bytes]);
        },
        [&](uint64_t done, uint64_t planned) { bar.update(done, planned); });
    bar.clear();
    if (!problem.empty())
      return fmt::format("{} among {} ranks over {}: {}", name(collective), ranks, transport, problem);
    decide(what.call, scores);
    return {};
  }

  void take(Call call, const Measured& measured, std::vector<Score>* scores) {
    if (!measured.reason.empty()) {
      note("{} at {}: {}\n", measured.algorithm, human_bytes(measured.bytes), measured.reason);
      return;
    }
    call.bytes = measured.bytes;
    const Algorithm* algorithm = algorithms::find(call.collective, measured.algorithm);
    scores->push_back({algorithm, measured.p50_us});
    const double predicted = cost_of(*algorithm, call).us;
    accuracy_[call.transport].add(predicted, measured.p50_us);
    all_.add(predicted, measured.p50_us);
    if (tuning_.json) {
      print_json({{"collective", name(call.collective)},
                  {"ranks", call.ranks},
                  {"bytes", measured.bytes},
                  {"dtype", name(call.type)},
                  {"op", name(call.op)},
                  {"transport", call.transport},
                  {"memory", tuning_.memory},
                  {"algorithm", measured.algorithm},
                  {"iterations", measured.iterations},
                  {"p50_us", measured.p50_us},
                  {"min_us", measured.min_us},
                  {"predicted_us", predicted}});
    } else {
      print("{:>10} {:>22} {:>12} {:>12}\n", human_bytes(measured.bytes), measured.algorithm, human_us(measured.p50_us),
            human_us(predicted));
      std::fflush(stdout);
    }
  }

  // The quickest of them, but the built-in choice unless it is clearly beaten.
  static std::optional<Score> best_of(const std::vector<Score>& scores, Call call, bool once) {
    call.reproducible |= once;
    const Algorithm* built_in = selection_of(call).algorithm;
    std::optional<Score> best, usual;
    for (const Score& score : scores) {
      if (once && !score.algorithm->single_fold) continue;
      if (!best || score.p50_us < best->p50_us) best = score;
      if (score.algorithm == built_in) usual = score;
    }
    return usual && best->p50_us > usual->p50_us * kClearly ? usual : best;
  }

  void decide(const Call& call, const std::map<uint64_t, std::vector<Score>>& scores) {
    std::vector<std::pair<uint64_t, Winners>> ranges;  // up to so many bytes
    for (const auto& [bytes, here] : scores) {
      Call sized = call;
      sized.bytes = bytes;
      const std::optional<Score> best = best_of(here, sized, false), once = best_of(here, sized, true);
      if (!best) continue;
      const Winners winners{*best, once.value_or(*best)};
      if (!ranges.empty() && ranges.back().second == winners)
        ranges.back().first = between(bytes);
      else
        ranges.emplace_back(between(bytes), winners);
    }
    if (!ranges.empty()) ranges.back().first = algorithms::kAnySize;
    for (const auto& [up_to, winners] : ranges) {
      add_row(call, up_to, winners.best);
      if (winners.once.algorithm != winners.best.algorithm) add_row(call, up_to, winners.once);
    }
  }

  void add_row(const Call& call, uint64_t up_to, const Score& score) {
    using algorithms::Where;
    const Where where = call.transport == "tcp" ? Where::messages : call.mapped ? Where::shared : Where::staged;
    rows_ += fmt::format("{:<15} {:<9} {:>5}  {:>6}  {}\n", name(call.collective), algorithms::name(where), call.ranks,
                         range(up_to), score.algorithm->name);
    ++row_count_;
  }

  std::string write() {
    const Measurement& what = tuning_.what;
    std::string text = fmt::format(
        "{}\n# The best algorithms by measurement with regroup {}: {}, {}, {} memory, {} cores.\n"
        "# A second row for the same bytes is for calls that must fold in one go (small floats, reproducible "
        "results).\n"
        "# REGROUP_TUNING=FILE makes the library use this table; all ranks need the same rows.\n"
        "{:<15} {:<9} {:>5}  {:>6}  {}\n",
        algorithms::Tuning::kFormat, REGROUP_VERSION, name(what.call.type), name(what.call.op), tuning_.memory,
        std::thread::hardware_concurrency(), "# collective", "where", "ranks", "up to", "algorithm");
    text += rows_;
    std::string problem;
    if (!algorithms::Tuning::parse(text, tuning_.output, &problem))
      return "the table that was made is wrong: " + problem;
    std::ofstream file(unfinished());
    file << text;
    file.close();
    std::error_code failed;
    if (file) std::filesystem::rename(unfinished(), tuning_.output, failed);
    return file && !failed ? "" : fmt::format("cannot write {}", tuning_.output);
  }

  void report() {
    if (tuning_.json) {
      Json by_transport;
      for (const auto& [transport, accuracy] : accuracy_) by_transport[transport] = accuracy.median_error();
      print_json({{"output", tuning_.output},
                  {"rows", row_count_},
                  {"measured", all_.count()},
                  {"median_error", all_.median_error()},
                  {"median_factor", all_.median_factor()},
                  {"median_error_by_transport", by_transport}});
      return;
    }
    print("\nwrote {} rows to {}\n", row_count_, tuning_.output);
    print("the cost model, {}\n", all_.to_string());
    for (const auto& [transport, accuracy] : accuracy_) print("  {}: {}\n", transport, accuracy.to_string());
  }

  const TuneOptions& tuning_;
  std::string rows_;
  size_t row_count_ = 0;
  std::map<std::string, Accuracy> accuracy_;
  Accuracy all_;
};

}  // namespace

int tune(const TuneOptions& tuning) { return Tuner(tuning).run(); }

}  // namespace regroup::tool
