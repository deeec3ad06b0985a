// SPDX-License-Identifier: Apache-2.0
// The simulated transport by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "simulation/scenario.h"
#include "simulation/seeds.h"
#include "transport/sim/sim_network.h"

namespace regroup::simulation {
namespace {

using transport::Message;
using transport::MessageKey;
using transport::sim::SimNetwork;
using transport::sim::SimOptions;
using Turn = SimNetwork::Turn;

// A pairwise message and its memory.
struct Letter {
  std::vector<std::byte> memory;
  Message message;

  Letter(Rank peer, uint32_t tag, uint64_t sequence, size_t bytes) : memory(bytes) {
    message.peer = peer;
    message.key = {MessageKey::Lane::pairwise, tag, sequence, 0};
    message.fingerprint = 1;
    message.bytes = bytes;
    message.single = {memory.data(), bytes};
    message.segments = {&message.single, 1};
  }
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;
};

std::byte content(size_t letter, size_t at) { return static_cast<std::byte>(letter * 31 + at * 7 + 1); }

// Rank 0 sends letters in order, and uses their memory for something else as soon as it may; rank 1 takes them in the
// opposite order. Returns how many sends were done before their receive was posted.
size_t exchange(uint64_t seed) {
  constexpr size_t kLetters = 6;
  SimNetwork network({.size = 2, .seed = seed});
  std::vector<std::unique_ptr<Letter>> sent, received;
  for (size_t i = 0; i < kLetters; ++i) {
    const size_t bytes = i * 300;
    sent.push_back(std::make_unique<Letter>(1, 5, i, bytes));
    received.push_back(std::make_unique<Letter>(0, 5, i, bytes));
    for (size_t at = 0; at < bytes; ++at) sent[i]->memory[at] = content(i, at);
  }
  size_t posted = 0, early = 0;
  bool overwritten[kLetters] = {};
  const auto sender = [&] {
    bool moved = network.at(0).progress();
    for (auto& letter : sent) {
      if (letter->message.state != Message::State::idle) continue;
      network.at(0).post_send(letter->message);
      moved = true;
    }
    size_t done = 0;
    for (size_t i = 0; i < kLetters; ++i) {
      if (sent[i]->message.state != Message::State::done) continue;
      ++done;
      if (overwritten[i]) continue;
      overwritten[i] = true;
      std::fill(sent[i]->memory.begin(), sent[i]->memory.end(), std::byte{0});
      early += kLetters - i > posted ? 1 : 0;
    }
    return done == kLetters ? Turn::finished : moved ? Turn::moved : Turn::waiting;
  };
  const auto receiver = [&] {
    bool moved = network.at(1).progress();
    if (posted < kLetters && (posted == 0 || received[kLetters - posted]->message.finished())) {
      network.at(1).post_receive(received[kLetters - ++posted]->message);
      moved = true;
    }
    return received[0]->message.finished() ? Turn::finished : moved ? Turn::moved : Turn::waiting;
  };
  const std::function<Turn()> drivers[] = {sender, receiver};
  EXPECT_EQ(network.run(drivers), SimNetwork::Ending::finished) << network.describe();
  for (size_t i = 0; i < kLetters; ++i) {
    EXPECT_EQ(received[i]->message.state, Message::State::done);
    for (size_t at = 0; at < received[i]->memory.size(); ++at) {
      EXPECT_EQ(received[i]->memory[at], content(i, at)) << "letter " << i << ", byte " << at;
    }
  }
  return early;
}

TEST(SimTransport, MessagesFindTheirReceiversWhateverTheOrder) {
  const Seeds seeds = seeds_of_environment(300);
  size_t early = 0, none_early = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const size_t here = exchange(seed);
    ASSERT_FALSE(HasFailure()) << repeat_command(seed);
    early += here;
    none_early += here == 0 ? 1 : 0;
  }
  if (seeds.count < 300) return;
  // Both are exercised: sends that are buffered, and networks in which all wait for their receivers.
  EXPECT_GT(early, 0u);
  EXPECT_GT(none_early, 0u);
}

TEST(SimTransport, AnnouncesTheLowestRankThatHasSent) {
  SimNetwork network({.size = 4, .seed = 7});
  Letter from_3(0, 9, 0, 100), from_2(0, 9, 4, 100), other_tag(0, 8, 0, 100);
  network.at(3).post_send(from_3.message);
  network.at(2).post_send(from_2.message);
  network.at(1).post_send(other_tag.message);
  std::vector<std::function<Turn()>> drivers(4);
  for (Rank rank = 0; rank < 4; ++rank) {
    drivers[rank] = [&network, rank] { return network.at(rank).progress() ? Turn::moved : Turn::waiting; };
  }
  EXPECT_EQ(network.run(drivers), SimNetwork::Ending::stuck);  // nobody receives
  EXPECT_EQ(network.at(0).announced(9, std::vector<uint64_t>{0, 0, 0, 0}), 3u);
  EXPECT_EQ(network.at(0).announced(9, std::vector<uint64_t>{0, 0, 4, 0}), 2u);
  EXPECT_EQ(network.at(0).announced(9, std::vector<uint64_t>{0, 0, 4, 1}), 2u);
  EXPECT_EQ(network.at(0).announced(9, std::vector<uint64_t>{0, 0, 5, 1}), plan::kNoRank);
}

// After a cancel the transport leaves the memory alone, on either side.
TEST(SimTransport, ACancelledMessageIsNotTouched) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimNetwork network({.size = 2, .seed = seed});
    Letter sent(1, 0, 0, 5'000), received(0, 0, 0, 5'000);
    const bool by_sender = seed % 2 == 0;
    int turns_left = static_cast<int>(seed / 2 % 12);
    const auto cancel = [&](SimNetwork& on, Rank rank, Letter& letter) {
      on.at(rank).cancel(letter.message);
      EXPECT_TRUE(letter.message.finished());
      std::fill(letter.memory.begin(), letter.memory.end(), std::byte{0x11});
    };
    const auto turn = [&](Rank rank, Letter& letter) {
      const bool moved = network.at(rank).progress();
      if (letter.message.state == Message::State::idle) {
        rank == 0 ? network.at(0).post_send(letter.message) : network.at(1).post_receive(letter.message);
        return Turn::moved;
      }
      if ((rank == 0) == by_sender && turns_left-- == 0) cancel(network, rank, letter);
      return moved ? Turn::moved : Turn::waiting;
    };
    const std::function<Turn()> drivers[] = {[&] { return turn(0, sent); }, [&] { return turn(1, received); }};
    EXPECT_EQ(network.run(drivers), SimNetwork::Ending::stuck);
    const Letter& cancelled = by_sender ? sent : received;
    if (cancelled.message.state != Message::State::cancelled) continue;  // it was done first
    for (const std::byte byte : cancelled.memory) ASSERT_EQ(byte, std::byte{0x11}) << "seed " << seed;
    if (by_sender && received.message.state == Message::State::done) {
      for (const std::byte byte : received.memory) ASSERT_EQ(byte, std::byte{0}) << "seed " << seed;
    }
  }
}

// A schedule in which everybody waits is noticed, and the report says for whom.
TEST(SimTransport, AHangIsReported) {
  const algorithms::Algorithm* ring = algorithms::find(Collective::all_reduce, "ring");
  verify::for_each_case(*ring, 3, [&](const verify::Case& each) {
    if (each.problems[0].count != 9) return;
    const verify::BatchMember call{ring, each, false};
    std::vector<plan::Schedule> schedules = verify::plan_all(*ring, each);
    for (plan::Step& step : schedules[1].parts().steps) {
      if (step.kind == plan::StepKind::send) step.message += 100;  // nobody expects these
    }
    std::mt19937_64 random(1);
    std::vector<Operation> operations;
    operations.push_back(make_operation({&call, 1}, std::move(schedules), random));
    const RunResult result = run_operations({.size = 3, .seed = 1}, operations);
    EXPECT_NE(result.failure.find("nobody can go on"), std::string::npos) << result.failure;
    EXPECT_NE(result.failure.find("receives message 0 of operation 1 from 1"), std::string::npos) << result.failure;
  });
}

// A rank that stops keeps the others waiting, and makes nothing wrong; a slow link only takes time.
TEST(SimTransport, StoppedRanksAndSlowLinks) {
  uint64_t stuck = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Scenario scenario = make_scenario(seed);
    const Rank size = scenario.options.size;
    if (size < 2) continue;
    const Rank slow = static_cast<Rank>(seed % size);
    Group group(scenario.options, scenario.operations);
    if (seed % 2 == 0) {
      for (Rank peer = 0; peer < size; ++peer) group.network().delay_link(slow, peer, 1'000'000'000);
      EXPECT_EQ(group.run(), SimNetwork::Ending::finished) << scenario.text << group.describe();
    } else {
      int turns_left = static_cast<int>(seed % 7);
      group.before_turn = [&](Rank rank) {
        if (rank == slow && --turns_left == 0) group.network().stop(rank);
      };
      stuck += group.run() == SimNetwork::Ending::stuck ? 1 : 0;
    }
    EXPECT_EQ(group.wrongs(), "") << scenario.text;
  }
  EXPECT_GT(stuck, 20u);
}

}  // namespace
}  // namespace regroup::simulation
