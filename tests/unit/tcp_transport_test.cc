// SPDX-License-Identifier: Apache-2.0
// Two or more TCP transports, driven by one thread or by one each: everything that goes well.
#include <thread>

#include "net/socket.h"
#include "unit/tcp_support.h"

namespace regroup::transport {
namespace {

class TcpTransportOn : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, TcpTransportOn, testing::Values(Wire::unix_socket, Wire::loopback));

// From rank 0 to rank 1; `early`: it has arrived before the receive is posted.
bool carry(Mesh& mesh, Parcel& sent, Parcel& got, bool early) {
  if (!early) mesh[1]->post_receive(got.message);
  mesh[0]->post_send(sent.message);
  mesh.settle();
  if (early) mesh[1]->post_receive(got.message);
  return mesh.drive([&] { return sent.done() && got.done(); });
}

TEST_P(TcpTransportOn, CarriesEverySizeBothWays) {
  Mesh mesh(2, GetParam());
  uint64_t sequence = 0;
  for (uint64_t bytes : {0ull, 1ull, 40ull, 4096ull, 65536ull, 65537ull, 1ull << 20, 16ull << 20}) {
    ++sequence;
    Parcel there(1, collective(sequence), bytes), back(0, collective(sequence), bytes);
    Parcel got_there(0, collective(sequence), bytes), got_back(1, collective(sequence), bytes);
    there.fill(1), back.fill(2);
    mesh[0]->post_send(there.message);
    mesh[1]->post_receive(got_there.message);
    mesh[1]->post_send(back.message);
    mesh[0]->post_receive(got_back.message);
    ASSERT_TRUE(mesh.drive([&] { return there.done() && back.done() && got_there.done() && got_back.done(); }))
        << bytes;
    EXPECT_EQ(there.content(), got_there.content()) << bytes;
    EXPECT_EQ(back.content(), got_back.content()) << bytes;
    EXPECT_TRUE(got_there.guards_hold() && got_back.guards_hold()) << bytes;
  }
}

TEST_P(TcpTransportOn, CutsMayDifferBetweenTheSides) {
  Mesh mesh(2, GetParam());
  std::mt19937 random(5);
  uint64_t sequence = 0;
  for (uint64_t bytes : {100ull, 5000ull, 60000ull, 70001ull, 1500000ull}) {
    for (size_t pieces : {1u, 3u, 40u, 900u}) {
      std::vector<uint64_t> cuts[2];
      for (auto& side : cuts) {
        for (size_t i = 0; i < pieces; ++i) side.push_back(random() % (bytes + 1));
        std::sort(side.begin(), side.end());
      }
      ++sequence;
      Parcel sent(1, collective(sequence), bytes, cuts[0]), got(0, collective(sequence), bytes, cuts[1]);
      sent.fill(static_cast<uint32_t>(sequence));
      if (sequence % 2 == 0) mesh[1]->post_receive(got.message);
      mesh[0]->post_send(sent.message);
      mesh.settle();
      if (sequence % 2 == 1) mesh[1]->post_receive(got.message);
      ASSERT_TRUE(mesh.drive([&] { return sent.done() && got.done(); })) << bytes << " in " << pieces;
      EXPECT_EQ(sent.content(), got.content()) << bytes << " in " << pieces;
      EXPECT_TRUE(got.guards_hold());
    }
  }
}

TEST_P(TcpTransportOn, FoldsWhatArrives) {
  Mesh mesh(2, GetParam());
  Folding folding;
  folding.fold = add_int32;
  folding.element_bytes = 4;
  uint64_t sequence = 0;
  for (uint64_t count : {0ull, 1ull, 10ull, 1001ull, 16384ull, 16385ull, 300001ull}) {
    for (bool early : {false, true}) {
      ++sequence;
      const uint64_t bytes = count * 4;
      Parcel sent(1, collective(sequence), bytes, {count / 3 * 4});
      Parcel got(0, collective(sequence), bytes, {count / 2 * 4});
      got.message.folding = &folding;
      sent.fill(3), got.fill(4);
      std::vector<std::byte> expected = got.content();
      const std::vector<std::byte> added = sent.content();
      const void* sources[2] = {expected.data(), added.data()};
      add_int32(expected.data(), sources, 2, count, {});
      ASSERT_TRUE(carry(mesh, sent, got, early)) << count;
      EXPECT_EQ(got.content(), expected) << count;
      EXPECT_TRUE(got.guards_hold());
    }
  }
}

TEST_P(TcpTransportOn, FoldsWithMemoryElsewhere) {
  Mesh mesh(2, GetParam());
  Folding folding;
  folding.fold = add_int32;
  folding.element_bytes = 4;
  uint64_t sequence = 0;
  for (uint64_t count : {1ull, 10ull, 16385ull, 300001ull}) {
    for (bool early : {false, true}) {
      ++sequence;
      const uint64_t bytes = count * 4;
      Parcel sent(1, collective(sequence), bytes, {count / 3 * 4});
      Parcel kept(1, collective(sequence), bytes, {count / 5 * 4, count / 4 * 4});
      Parcel got(0, collective(sequence), bytes, {count / 2 * 4});
      got.message.folding = &folding;
      got.message.operand = kept.pieces;
      sent.fill(3), kept.fill(4), got.fill(5);
      const std::vector<std::byte> one = kept.content(), other = sent.content();
      std::vector<std::byte> expected(bytes);
      const void* sources[2] = {one.data(), other.data()};
      add_int32(expected.data(), sources, 2, count, {});
      ASSERT_TRUE(carry(mesh, sent, got, early)) << count;
      EXPECT_EQ(got.content(), expected) << count;
      EXPECT_EQ(kept.content(), one) << count;
      EXPECT_TRUE(got.guards_hold());
    }
  }
}

TEST_P(TcpTransportOn, ThousandsAtOnceInRandomOrder) {
  Mesh mesh(2, GetParam());
  constexpr size_t kMessages = 4000;
  std::mt19937 random(11);
  std::vector<std::unique_ptr<Parcel>> sent, got;
  for (uint32_t i = 0; i < kMessages; ++i) {
    const uint64_t bytes = i % 200 == 0 ? 100000 + random() % 100000 : random() % 3000;
    sent.push_back(std::make_unique<Parcel>(1, pairwise(i % 17, i), bytes));
    got.push_back(std::make_unique<Parcel>(0, pairwise(i % 17, i), bytes));
    sent.back()->fill(i);
  }
  std::vector<uint32_t> order(kMessages);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  for (auto& parcel : sent) mesh[0]->post_send(parcel->message);
  for (size_t i = 0; i < kMessages; ++i) {
    mesh[1]->post_receive(got[order[i]]->message);
    if (i % 64 == 0) mesh[0]->progress(), mesh[1]->progress();
  }
  const auto done = [](const auto& parcel) { return parcel->done(); };
  ASSERT_TRUE(mesh.drive(
      [&] { return std::all_of(sent.begin(), sent.end(), done) && std::all_of(got.begin(), got.end(), done); }));
  for (size_t i = 0; i < kMessages; ++i) EXPECT_EQ(sent[i]->content(), got[i]->content()) << i;
}

TEST_P(TcpTransportOn, LastTagFirstWithTheWindowExhausted) {
  Mesh mesh(2, GetParam());
  constexpr uint32_t kMessages = 100;  // of 60,000 bytes: six windows
  std::vector<std::unique_ptr<Parcel>> sent, got;
  for (uint32_t i = 0; i < kMessages; ++i) {
    sent.push_back(std::make_unique<Parcel>(1, pairwise(i, 0), 60000));
    got.push_back(std::make_unique<Parcel>(0, pairwise(i, 0), 60000));
    sent.back()->fill(i);
    mesh[0]->post_send(sent.back()->message);
  }
  mesh.settle();
  EXPECT_TRUE(sent.front()->done());
  EXPECT_FALSE(sent.back()->done());
  for (uint32_t i = kMessages; i-- > 0;) {
    mesh[1]->post_receive(got[i]->message);
    ASSERT_TRUE(mesh.drive([&] { return got[i]->done(); })) << i;
    EXPECT_EQ(sent[i]->content(), got[i]->content());
  }
  EXPECT_TRUE(mesh.drive([&] { return sent.back()->done(); }));
}

TEST_P(TcpTransportOn, SmallOnesPassLargeOnes) {
  Mesh mesh(2, GetParam());
  Parcel large(1, collective(1, 0), 32 << 20), small(1, collective(1, 1), 100);
  Parcel got_large(0, collective(1, 0), 32 << 20), got_small(0, collective(1, 1), 100);
  mesh[1]->post_receive(got_large.message);
  mesh[1]->post_receive(got_small.message);
  mesh[0]->post_send(large.message);
  for (int i = 0; i < 4; ++i) mesh[1]->progress(), mesh[0]->progress();
  mesh[0]->post_send(small.message);
  ASSERT_TRUE(mesh.drive([&] { return got_small.done(); }));
  EXPECT_FALSE(got_large.done());
  ASSERT_TRUE(mesh.drive([&] { return got_large.done(); }));
}

TEST(TcpTransport, TwoLargeOnesShareTheStream) {
  Mesh mesh(2);
  Parcel one(1, collective(1, 0), 20 << 20), two(1, collective(1, 1), 2 << 20);
  Parcel got_one(0, collective(1, 0), 20 << 20), got_two(0, collective(1, 1), 2 << 20);
  one.fill(1), two.fill(2);
  mesh[1]->post_receive(got_one.message);
  mesh[1]->post_receive(got_two.message);
  mesh[0]->post_send(one.message);
  mesh[0]->post_send(two.message);
  ASSERT_TRUE(mesh.drive([&] { return got_two.done(); }));
  EXPECT_FALSE(got_one.done());
  ASSERT_TRUE(mesh.drive([&] { return got_one.done(); }));
  EXPECT_EQ(one.content(), got_one.content());
  EXPECT_EQ(two.content(), got_two.content());
}

TEST(TcpTransport, ManyRanksExchange) {
  constexpr Rank kSize = 12;  // more than are asked one by one
  Mesh mesh(kSize, Wire::unix_socket);
  std::vector<std::unique_ptr<Parcel>> sent, got;
  for (Rank from = 0; from < kSize; ++from) {
    for (Rank to = 0; to < kSize; ++to) {
      if (from == to) continue;
      const uint64_t bytes = (from + to) % 3 == 0 ? 200000 : 1000;
      sent.push_back(std::make_unique<Parcel>(to, collective(1), bytes));
      got.push_back(std::make_unique<Parcel>(from, collective(1), bytes));
      sent.back()->fill(from * kSize + to);
      mesh[from]->post_send(sent.back()->message);
      mesh[to]->post_receive(got.back()->message);
    }
  }
  const auto done = [](const auto& parcel) { return parcel->done(); };
  ASSERT_TRUE(mesh.drive([&] { return std::all_of(got.begin(), got.end(), done); }));
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i]->content(), got[i]->content());
  mesh[3].transport.reset();
  mesh.members.erase(mesh.members.begin() + 3);
  mesh.settle();
  for (auto& member : mesh.members) {
    ASSERT_EQ(member->lost.size(), 1u);
    EXPECT_EQ(member->lost[0].first, 3u);
  }
}

TEST(TcpTransport, AnnouncesTheLowestRank) {
  Mesh mesh(3);
  const std::vector<uint64_t> sequences = {0, 0, 4};
  EXPECT_EQ(mesh[0]->announced(9, sequences), plan::kNoRank);
  Parcel late(0, pairwise(9, 4), 10), large(0, pairwise(9, 0), 1 << 20), other(0, pairwise(8, 0), 10);
  mesh[2]->post_send(late.message);
  mesh[1]->post_send(other.message);
  mesh.settle();
  EXPECT_EQ(mesh[0]->announced(9, sequences), 2u);
  mesh[1]->post_send(large.message);
  mesh.settle();
  EXPECT_EQ(mesh[0]->announced(9, sequences), 1u);
  Parcel got(1, pairwise(9, 0), 1 << 20);
  mesh[0]->post_receive(got.message);
  ASSERT_TRUE(mesh.drive([&] { return got.done() && large.done(); }));
  EXPECT_EQ(mesh[0]->announced(9, sequences), 2u);
}

TEST(TcpTransport, KnowsStreamsInsideTheMachine) {
  const auto loopback = connected(Wire::loopback);
  EXPECT_TRUE(net::within_machine(loopback.first.get()));
  EXPECT_TRUE(net::within_machine(loopback.second.get()));
  EXPECT_FALSE(net::within_machine(connected(Wire::unix_socket).first.get()));
}

TEST(TcpTransport, KeepsScratch) {
  Mesh mesh(2);
  std::byte* const scratch = mesh[0]->scratch(1 << 20);
  ASSERT_NE(scratch, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
  EXPECT_EQ(mesh[0]->scratch(1000), scratch);
}

// Drives one member until the messages are finished, asleep whenever nothing moves.
void wait_for(Member& member, std::initializer_list<const Parcel*> parcels, int* sleeps) {
  const base::Time deadline = base::deadline_after(std::chrono::seconds(20));
  const auto finished = [&] {
    return std::all_of(parcels.begin(), parcels.end(), [](const Parcel* parcel) { return parcel->message.finished(); });
  };
  while (!finished() && base::Clock::now() < deadline) {
    if (member->progress() || finished()) continue;
    if (member->prepare_sleep()) {
      member.waker.sleep(deadline);
      ++*sleeps;
    }
    member->woke();
  }
  EXPECT_TRUE(finished());
}

TEST_P(TcpTransportOn, TwoThreadsSleepAndWake) {
  Mesh mesh(2, GetParam());
  const auto rank = [&](Rank me) {
    Member& member = mesh[me];
    const Rank peer = 1 - me;
    int sleeps = 0;
    for (uint64_t sequence = 1; sequence <= 200; ++sequence) {
      const uint64_t bytes = sequence % 50 == 0 ? 8 << 20 : sequence % 3 == 0 ? 100000 : 10 * sequence;
      Parcel sent(peer, collective(sequence), bytes), got(peer, collective(sequence), bytes);
      if (bytes < 1 << 20) sent.fill(static_cast<uint32_t>(sequence * 2 + me));
      member->post_receive(got.message);
      if (sequence % 20 == me) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      member->post_send(sent.message);
      wait_for(member, {&sent, &got}, &sleeps);
      if (bytes >= 1 << 20) continue;
      Parcel expected(peer, collective(sequence), bytes);
      expected.fill(static_cast<uint32_t>(sequence * 2 + peer));
      EXPECT_EQ(got.content(), expected.content()) << sequence;
    }
    EXPECT_GT(sleeps, 0);
    EXPECT_LT(sleeps, 20000);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

TEST(TcpTransport, SleepLastsWhileNothingComes) {
  Mesh mesh(2);
  mesh.settle();
  ASSERT_TRUE(mesh[0]->prepare_sleep());
  const base::Time before = base::Clock::now();
  mesh[0].waker.sleep(base::deadline_after(std::chrono::milliseconds(30)));
  EXPECT_GE(base::Clock::now() - before, std::chrono::milliseconds(30));
  mesh[0]->woke();
  Parcel sent(1, collective(1), 10);
  mesh[0]->post_send(sent.message);
  EXPECT_FALSE(mesh[0]->prepare_sleep());  // it has not been written yet
}

}  // namespace
}  // namespace regroup::transport
