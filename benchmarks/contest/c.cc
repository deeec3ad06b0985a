// SPDX-License-Identifier: Apache-2.0
#include "contest/c.h"

#include "contest/contender.h"

namespace regroup::contest {

namespace {

std::string words(const char* text) { return text == nullptr ? "" : text; }

class Foreign final : public Contender {
 public:
  Foreign(const regroup_contest_contender& functions, const char* version)
      : functions_(functions), version_(words(version)) {}

  std::string start(Rank rank, Rank ranks, std::string* version) override {
    *version = version_;
    return words(functions_.start(rank, ranks));
  }

  std::string prepare(const Turn& turn) override {
    const Task& task = *turn.task;
    // The names are literals.
    const regroup_contest_turn plain = {name(task.collective).data(),
                                        name(task.type).data(),
                                        name(task.op.kind).data(),
                                        turn.rank,
                                        task.ranks,
                                        task.root,
                                        task.in_place ? 1u : 0u,
                                        turn.part,
                                        turn.part_bytes(),
                                        turn.input,
                                        turn.output,
                                        turn.input_parts,
                                        turn.output_parts};
    return words(functions_.prepare(&plain));
  }

  std::string call() override { return words(functions_.call()); }

 private:
  const regroup_contest_contender functions_;
  const std::string version_;
};

}  // namespace

}  // namespace regroup::contest

int regroup_contest_run(uint32_t rank, const char* version, const regroup_contest_contender* contender) {
  regroup::contest::pin(rank);
  regroup::contest::Foreign foreign(*contender, version);
  return regroup::contest::contend(foreign, rank);
}
