// SPDX-License-Identifier: Apache-2.0
// Runs all ranks' schedules on tagged values, in a random order that their dependencies, messages and marks allow, and
// notices what goes wrong: races, deadlocks, reads of memory that holds nothing yet or was given back, contributions
// folded after the last operation. It knows no collective's meaning but which parts there are; what came out is for the
// test to judge.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "plan/problem.h"
#include "plan/schedule.h"

namespace regroup::testing {

// An element. `trace` tells how it came to be: equal traces, equal folds in equal order.
struct Value {
  int64_t sum = 0;
  uint64_t trace = 0;
  bool valid = false;
  bool finished = false;

  friend bool operator==(const Value&, const Value&) = default;
};

// Element `index` of part `part` of rank `rank`'s input.
Value contribution(Rank rank, uint32_t part, uint64_t index);
// One fold over all operands, in their order.
Value fold(const std::vector<Value>& operands, bool finish);

// Elements of each part of a rank's input and output.
std::vector<uint64_t> input_parts(const plan::Problem& problem);
std::vector<uint64_t> output_parts(const plan::Problem& problem);

struct RunOptions {
  bool in_place = false;    // input and output share memory as plan::Space says
  bool rendezvous = false;  // a send is done only when its receive is, rather than as soon as it likes
  bool early = false;       // every step begins as soon as it may, rather than at random
  uint64_t seed = 0;
};

class Interpreter {
 public:
  // problems[r], schedules[r]: rank r's. Inputs hold contributions.
  Interpreter(const std::vector<plan::Problem>& problems, std::vector<plan::Schedule> schedules, RunOptions options);

  // Empty, or what went wrong.
  std::string run();

  const Value& output(Rank rank, uint32_t part, uint64_t index) const;

 private:
  struct Cell {
    Value value;
    int readers = 0;
    bool writing = false;
  };
  struct Part {
    size_t first;  // cell
    uint64_t count;
  };
  using Cells = std::vector<Cell*>;
  struct Member {
    std::vector<Cell> cells;
    std::vector<Part> parts[3];   // by space
    std::vector<uint32_t> waits;  // by step: dependencies that are not done yet
    std::vector<std::vector<plan::StepIndex>> followers;
    size_t left = 0;  // steps not done
    plan::Mark mark = 0;
  };
  struct Activity {
    Rank rank;
    plan::StepIndex step;
  };
  using Message = std::tuple<Rank, Rank, uint32_t>;  // from, to, number

  void lay_out(const plan::Problem& problem, Member* member);
  const plan::Step& step_of(Activity activity) const { return schedules_[activity.rank].steps()[activity.step]; }
  Cells resolve(Rank rank, const plan::Slice& slice);
  std::vector<Cells> sources(Activity activity);
  static bool writes(plan::StepKind kind);
  bool no_op(Activity activity);
  bool try_begin(Activity activity);
  bool try_end(Activity activity);
  void finish_receive(Activity activity, const std::vector<Value>& arrived);
  void unlock(Activity activity);
  void done(Activity activity);
  void fail(Activity activity, const std::string& what);
  bool advance_one(std::vector<Activity>* from, bool (Interpreter::*attempt)(Activity));

  RunOptions options_;
  std::vector<plan::Schedule> schedules_;
  std::vector<Member> members_;
  std::mt19937_64 random_;
  std::vector<Activity> waiting_;  // dependencies done, not begun
  std::vector<Activity> active_;   // begun, not done
  std::map<Message, std::vector<Value>> mail_;
  std::map<Message, Activity> posted_;  // sends that are done only with their receive
  std::string error_;
};

}  // namespace regroup::testing
