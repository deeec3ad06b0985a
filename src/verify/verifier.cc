// SPDX-License-Identifier: Apache-2.0
#include "verify/verifier.h"

#include <iterator>

#include "base/assert.h"
#include "verify/subject.h"

namespace regroup::verify {

namespace {

// The ranks' problems have to be one problem; that is the caller's business, not the planner's.
void assert_agreed(const Member& member, size_t size) {
  REGROUP_ASSERT(member.problems.size() == size);
  const plan::Problem& first = member.problems[0];
  for (Rank rank = 0; rank < size; ++rank) {
    const plan::Problem& problem = member.problems[rank];
    REGROUP_ASSERT(problem.rank == rank && problem.size == size && problem.root < size);
    REGROUP_ASSERT(problem.collective == first.collective && problem.root == first.root);
    if (problem.collective != Collective::all_to_all) continue;
    for (Rank other = 0; other < size; ++other) {
      REGROUP_ASSERT(problem.counts[other] == member.problems[other].receive_counts[rank]);
    }
  }
}

}  // namespace

std::string_view name(Fault fault) {
  constexpr std::string_view names[] = {"structure",     "matching",      "deadlock", "race",   "lifetime",
                                        "uninitialised", "input_written", "fold",     "result", "order"};
  static_assert(std::size(names) == kFaults);
  return static_cast<size_t>(fault) < std::size(names) ? names[static_cast<size_t>(fault)] : "?";
}

std::string to_string(const Finding& finding) {
  std::string text = "rank " + std::to_string(finding.rank);
  if (finding.step != plan::kNoStep) text += ", step " + std::to_string(finding.step);
  return text + ": " + std::string(name(finding.fault)) + ": " + finding.text;
}

std::vector<Finding> verify(std::span<const Member> members, std::span<const plan::Schedule> schedules,
                            const Options& options) {
  REGROUP_ASSERT(!members.empty() && !schedules.empty() && options.most_findings > 0);
  for (const Member& member : members) assert_agreed(member, schedules.size());

  Subject subject{members, schedules, options};
  for (Rank rank = 0; rank < schedules.size(); ++rank) {
    subject.layouts.emplace_back();
    subject.memory_ends.push_back(0);
    for (size_t member = 0; member < members.size(); ++member) {
      subject.layouts.back().push_back(lay_out(members[member].problems[rank],
                                               schedules[rank].scratch_count(static_cast<uint16_t>(member)),
                                               members[member].in_place, &subject.memory_ends.back()));
    }
  }
  Findings findings(options.most_findings);
  check_structure(subject, findings);
  if (!findings.empty()) return findings.take();
  const std::vector<StepId> order = check_progress(subject, findings);
  if (findings.empty()) check_execution(subject, order, findings);
  return findings.take();
}

std::vector<Finding> verify(const Member& member, std::span<const plan::Schedule> schedules, const Options& options) {
  return verify(std::span<const Member>(&member, 1), schedules, options);
}

}  // namespace regroup::verify
