// SPDX-License-Identifier: Apache-2.0
// Messages of an agreement as bytes, and the sets in them. That the agreement itself holds is the simulation's to show.
#include <gtest/gtest.h>

#include <random>

#include "membership/agreement_message.h"

namespace regroup::membership {
namespace {

TEST(AgreementRankSet, IsASet) {
  for (const Rank size : {1u, 63u, 64u, 65u, 200u}) {
    RankSet set(size);
    EXPECT_TRUE(set.empty());
    EXPECT_EQ(set.first(), size);
    set.add(size - 1);
    EXPECT_TRUE(set.contains(size - 1));
    EXPECT_FALSE(set.contains(size));
    EXPECT_EQ(set.first(), size - 1);
    EXPECT_EQ(set.ranks(), std::vector<Rank>{size - 1});
    const RankSet all = RankSet::all(size);
    EXPECT_EQ(all.count(), size);
    EXPECT_TRUE(all.includes(set));
    EXPECT_EQ(set.includes(all), size == 1);
    EXPECT_EQ((all - set).count(), size - 1);
    EXPECT_EQ((all - set) | set, all);
    set.remove(size - 1);
    EXPECT_TRUE(set.empty());
  }
}

TEST(AgreementRankSet, TakesOnlyWhatFits) {
  RankSet set;
  EXPECT_TRUE(set.assign(64, {~uint64_t{0}}));
  EXPECT_FALSE(set.assign(63, {~uint64_t{0}}));
  EXPECT_FALSE(set.assign(64, {0, 0}));
  EXPECT_FALSE(set.assign(65, {0}));
  EXPECT_FALSE(set.assign(65, {0, 2}));
  EXPECT_TRUE(set.assign(65, {0, 1}));
}

AgreementMessage a_message(Rank size, int which) {
  AgreementMessage message;
  message.kind = static_cast<AgreementMessage::Kind>(1 + which % 7);
  message.instance = 77;
  message.ballot = 123456789012345;
  if ((which & 1) != 0) {
    Contribution part{1, 2, 3, true, RankSet(size), RankSet(size)};
    part.dead.add(size - 1);
    part.unreachable.add(0);
    message.contribution = part;
  }
  if ((which & 2) != 0) {
    message.accepted = 9;
    Decision decision{1, true, 2, 3, RankSet::all(size), RankSet(size), RankSet(size), RankSet::all(size)};
    decision.failed.add(size / 2);
    message.decision = decision;
  }
  if ((which & 4) != 0) message.dead = RankSet::all(size);
  return message;
}

TEST(AgreementMessages, ComeBackAsTheyWere) {
  for (const Rank size : {1u, 5u, 64u, 65u}) {
    for (int which = 0; which < 56; ++which) {
      const AgreementMessage message = a_message(size, which);
      const auto back = decode(encode(message), size);
      ASSERT_TRUE(back.has_value());
      EXPECT_EQ(back->kind, message.kind);
      EXPECT_EQ(back->instance, message.instance);
      EXPECT_EQ(back->ballot, message.ballot);
      EXPECT_EQ(back->contribution, message.contribution);
      EXPECT_EQ(back->accepted, message.accepted);
      EXPECT_EQ(back->decision, message.decision);
      EXPECT_EQ(back->dead, message.dead);
    }
  }
}

TEST(AgreementMessages, WhatIsNoneIsRefused) {
  for (int which = 0; which < 8; ++which) {
    std::vector<std::byte> bytes = encode(a_message(5, which));
    for (size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode(std::span(bytes).first(length), 5).has_value());
    EXPECT_EQ(decode(bytes, 65).has_value(), which == 0);  // sets of another size
    EXPECT_EQ(decode(bytes, 4).has_value(), which == 0);   // ranks that do not exist
    for (const int kind : {0, 8, 255}) {
      bytes[0] = static_cast<std::byte>(kind);
      EXPECT_FALSE(decode(bytes, 5).has_value());
    }
    bytes[0] = std::byte{1};
    bytes[2] = std::byte{1};  // says that it holds more
    EXPECT_FALSE(decode(bytes, 5).has_value());
    bytes[2] = std::byte{0};
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes, 5).has_value());
  }
}

// Whatever comes in: either refused, or a message that would be sent just so.
TEST(AgreementMessages, RandomBytesDoNoHarm) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const Rank size = static_cast<Rank>(1 + random() % 70);
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 8);
    const auto message = decode(bytes, size);
    EXPECT_TRUE(!message.has_value() || encode(*message).size() == bytes.size());
  }
}

}  // namespace
}  // namespace regroup::membership
