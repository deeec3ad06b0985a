// SPDX-License-Identifier: Apache-2.0
// A TCP transport whose peer disagrees, is late, is cut off, or talks nonsense.
#include <algorithm>
#include <thread>

#include "unit/tcp_support.h"

namespace regroup::transport {
namespace {

using tcp::Frame;
using tcp::FrameKind;

Signature all_reduce_of(uint64_t count) {
  Signature signature;
  signature.collective = Collective::all_reduce;
  signature.count = count;
  return signature;
}

void begin(Member& member, uint64_t sequence, const Signature& signature) {
  Opening opening;
  opening.sequence = sequence;
  opening.signature = signature;
  member->begin(opening);
}

class TcpFaultsOn : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, TcpFaultsOn, testing::Values(Wire::unix_socket, Wire::loopback));

TEST_P(TcpFaultsOn, DropsWhatIsStaleAndKeepsWhatIsEarly) {
  Mesh mesh(2, GetParam());
  const Signature signature = all_reduce_of(10);
  std::vector<std::unique_ptr<Parcel>> sent;
  const auto send = [&](uint64_t sequence, uint32_t number, uint64_t bytes) -> Parcel& {
    sent.push_back(std::make_unique<Parcel>(1, collective(sequence, number), bytes));
    sent.back()->message.fingerprint = fingerprint(signature);
    sent.back()->fill(static_cast<uint32_t>(sequence));
    mesh[0]->post_send(sent.back()->message);
    return *sent.back();
  };
  // More than the window holds, of an operation that the receiver never opens, and one ahead of the next.
  for (uint32_t i = 0; i < 40; ++i) send(1, i, 60000);
  const Parcel& early = send(3, 0, 60000);
  mesh.settle();
  begin(mesh[1], 2, signature);
  mesh.settle();
  // The window is free again: this one goes unasked, arrives before it is posted, and is kept.
  for (uint32_t i = 0; i < 40; ++i) send(1, 100 + i, 60000);
  Parcel& next = send(2, 0, 1000);
  EXPECT_TRUE(mesh.drive([&] { return next.done(); }));
  Parcel got_next(0, collective(2), 1000), got_early(0, collective(3), 60000);
  got_next.message.fingerprint = got_early.message.fingerprint = fingerprint(signature);
  mesh[1]->post_receive(got_next.message);
  ASSERT_TRUE(mesh.drive([&] { return got_next.done(); }));
  begin(mesh[1], 3, signature);
  mesh[1]->post_receive(got_early.message);
  ASSERT_TRUE(mesh.drive([&] { return got_early.done(); }));
  EXPECT_EQ(early.content(), got_early.content());
  EXPECT_EQ(mesh[1]->gathered(nullptr), Gathering::complete);
  for (auto& parcel : sent) mesh[0]->cancel(parcel->message);
}

struct Disagreement {
  uint64_t sent, expected;
  bool receive_first;
};

TEST_P(TcpFaultsOn, SizesThatDifferEndBothSides) {
  for (const Disagreement& each : {Disagreement{1 << 20, 2 << 20, false},
                                   {1 << 20, 2 << 20, true},
                                   {100000, 10, false},
                                   {100000, 10, true},
                                   {10, 100000, true},
                                   {10, 100000, false},
                                   {10, 11, true}}) {
    Mesh mesh(2, GetParam());
    const Signature signature = all_reduce_of(10);
    begin(mesh[0], 1, signature), begin(mesh[1], 1, signature);
    Parcel sent(1, collective(1), each.sent), got(0, collective(1), each.expected);
    sent.message.fingerprint = got.message.fingerprint = fingerprint(signature);
    if (each.receive_first) mesh[1]->post_receive(got.message);
    mesh.settle();
    mesh[0]->post_send(sent.message);
    mesh.settle();
    if (!each.receive_first) mesh[1]->post_receive(got.message);
    mesh.settle();
    EXPECT_EQ(got.message.state, Message::State::mismatched) << each.sent << " " << each.expected;
    EXPECT_EQ(got.message.other_bytes, each.sent);
    if (each.sent > tcp::kEagerLimit) {
      EXPECT_EQ(sent.message.state, Message::State::mismatched) << each.sent << " " << each.expected;
      EXPECT_EQ(sent.message.other_bytes, each.expected);
    }
    for (Rank rank : {0u, 1u}) {
      Conflict conflict;
      ASSERT_EQ(mesh[rank]->gathered(&conflict), Gathering::conflict) << rank << " " << each.sent;
      EXPECT_TRUE(conflict.sizes);
      EXPECT_EQ(conflict.first, 0u);
      EXPECT_EQ(conflict.second, 1u);
      EXPECT_EQ(conflict.gives, each.sent);
      EXPECT_EQ(conflict.takes, each.expected);
      EXPECT_EQ(conflict.second_signature, signature);
    }
    // The stream is as good as before.
    Parcel more(1, collective(2), 3 << 20), got_more(0, collective(2), 3 << 20);
    more.fill(1);
    mesh[0]->post_send(more.message), mesh[1]->post_receive(got_more.message);
    ASSERT_TRUE(mesh.drive([&] { return got_more.done(); }));
    EXPECT_EQ(more.content(), got_more.content());
  }
}

TEST_P(TcpFaultsOn, FingerprintsThatDifferAreConflicts) {
  for (uint64_t bytes : {100ull, 1ull << 20}) {
    for (bool receive_first : {false, true}) {
      Mesh mesh(2, GetParam());
      const Signature mine = all_reduce_of(10), theirs = all_reduce_of(11);
      begin(mesh[0], 5, mine);
      Parcel sent(1, collective(5), bytes), got(0, collective(5), bytes);
      sent.message.fingerprint = fingerprint(mine);
      got.message.fingerprint = fingerprint(theirs);
      if (!receive_first) mesh[0]->post_send(sent.message), mesh.settle();
      begin(mesh[1], 5, theirs);
      mesh[1]->post_receive(got.message);
      mesh.settle();
      if (receive_first) mesh[0]->post_send(sent.message), mesh.settle();
      EXPECT_EQ(got.message.state, Message::State::mismatched);
      EXPECT_EQ(got.message.other_fingerprint, fingerprint(mine));
      if (bytes > tcp::kEagerLimit) {
        EXPECT_EQ(sent.message.state, Message::State::mismatched);
        EXPECT_EQ(sent.message.other_fingerprint, fingerprint(theirs));
      }
      Conflict conflict;
      ASSERT_EQ(mesh[1]->gathered(&conflict), Gathering::conflict);
      EXPECT_EQ(conflict.first, 1u);
      EXPECT_EQ(conflict.second, 0u);
      EXPECT_EQ(conflict.first_signature, theirs);
      ASSERT_EQ(mesh[0]->gathered(&conflict), Gathering::conflict);  // a send that went unasked hears of it too
      EXPECT_EQ(conflict.first_signature, mine);
      begin(mesh[1], 6, mine);
      EXPECT_EQ(mesh[1]->gathered(nullptr), Gathering::complete);
    }
  }
}

TEST(TcpFaults, EarlyFrameThatDisagreesIsSeenAtTheBeginning) {
  Mesh mesh(2);
  Parcel sent(1, collective(1), 1 << 20);
  mesh[0]->post_send(sent.message);
  mesh.settle();
  begin(mesh[1], 1, all_reduce_of(4));
  EXPECT_EQ(mesh[1]->gathered(nullptr), Gathering::conflict);
}

TEST_P(TcpFaultsOn, CancelledReceiveIsNotTouched) {
  for (bool folds : {false, true}) {
    Mesh mesh(2, GetParam());
    Folding folding;
    folding.fold = add_int32;
    folding.element_bytes = 4;
    constexpr uint64_t kBytes = 16 << 20;
    Parcel sent(1, collective(1), kBytes), got(0, collective(1), kBytes, {1000, 1 << 20});
    sent.fill(1);
    if (folds) got.message.folding = &folding;
    mesh[0]->post_send(sent.message), mesh[1]->post_receive(got.message);
    ASSERT_TRUE(mesh.drive([&] { return got.message.moved > 1 << 20; }));
    mesh[0]->progress();
    mesh[1]->cancel(got.message);
    EXPECT_EQ(got.message.state, Message::State::cancelled);
    std::fill(got.memory.begin(), got.memory.end(), Parcel::kGuard);
    ASSERT_TRUE(mesh.drive([&] { return sent.done(); }));  // the peer streams on
    mesh.settle();
    EXPECT_TRUE(std::all_of(got.memory.begin(), got.memory.end(), [](std::byte b) { return b == Parcel::kGuard; }));
    Parcel next(1, collective(2), kBytes), got_next(0, collective(2), kBytes);
    next.fill(2);
    mesh[0]->post_send(next.message), mesh[1]->post_receive(got_next.message);
    ASSERT_TRUE(mesh.drive([&] { return got_next.done(); }));
    EXPECT_EQ(next.content(), got_next.content());
  }
}

TEST_P(TcpFaultsOn, CancelledSendKeepsTheFraming) {
  Mesh mesh(2, GetParam());
  constexpr uint64_t kBytes = 16 << 20;
  auto sent = std::make_unique<Parcel>(1, collective(1), kBytes);
  Parcel got(0, collective(1), kBytes), small(1, collective(1, 1), 500), got_small(0, collective(1, 1), 500);
  small.fill(3);
  mesh[1]->post_receive(got.message), mesh[1]->post_receive(got_small.message);
  mesh[1]->progress();
  mesh[0]->post_send(sent->message);
  ASSERT_TRUE(mesh.drive([&] { return got.message.moved > 1 << 20; }));
  for (int i = 0; i < 20; ++i) mesh[0]->progress();  // the socket is full: amid a frame
  mesh[0]->post_send(small.message);
  mesh[0]->cancel(sent->message);
  EXPECT_EQ(sent->message.state, Message::State::cancelled);
  sent.reset();  // with its memory
  ASSERT_TRUE(mesh.drive([&] { return got_small.done(); }));
  EXPECT_EQ(small.content(), got_small.content());
  EXPECT_EQ(got.message.state, Message::State::posted);
  mesh[1]->cancel(got.message);
  Parcel next(1, collective(2), kBytes), got_next(0, collective(2), kBytes);
  next.fill(2);
  mesh[0]->post_send(next.message), mesh[1]->post_receive(got_next.message);
  ASSERT_TRUE(mesh.drive([&] { return got_next.done(); }));
  EXPECT_EQ(next.content(), got_next.content());
}

TEST_P(TcpFaultsOn, CancelBeforeAnythingMoved) {
  Mesh mesh(2, GetParam());
  for (uint64_t bytes : {100ull, 1ull << 20}) {
    Parcel sent(1, pairwise(1, bytes), bytes), got(0, pairwise(2, bytes), bytes);
    mesh[0]->post_send(sent.message), mesh[1]->post_receive(got.message);
    mesh[0]->cancel(sent.message), mesh[1]->cancel(got.message);
    mesh.settle();
    EXPECT_EQ(sent.message.state, Message::State::cancelled);
    EXPECT_EQ(got.message.state, Message::State::cancelled);
    // Posted again under the same key, it goes through although the peer was told of the first.
    Parcel again(1, pairwise(1, bytes), bytes), got_again(0, pairwise(1, bytes), bytes);
    again.fill(4);
    mesh[0]->post_send(again.message), mesh[1]->post_receive(got_again.message);
    ASSERT_TRUE(mesh.drive([&] { return again.done() && got_again.done(); }));
    EXPECT_EQ(again.content(), got_again.content());
  }
}

// A transport of rank 0 whose only peer is a bare socket.
struct Bare {
  explicit Bare(Wire wire = Wire::loopback) {
    std::vector<base::Fd> streams(2);
    std::tie(streams[1], socket) = connected(wire);
    member.start(0, 2, std::move(streams));
  }
  void say(const Frame& frame, uint64_t token = 7, uint32_t epoch = 1, size_t payload = 0) {
    std::vector<std::byte> bytes(tcp::kHeaderBytes + payload);
    tcp::encode(frame, {token, epoch}, bytes.data());
    write(bytes.data(), bytes.size());
  }
  void write(const void* data, size_t bytes) {
    if (!member.lost.empty()) return;
    EXPECT_EQ(::send(socket.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    for (int i = 0; i < 200; ++i) member->progress();
  }
  Member member;
  base::Fd socket;
};

TEST(TcpFaults, NonsenseBreaksTheStream) {
  const auto broken_by = [](const char* what, auto nonsense) {
    Bare bare;
    Parcel posted(1, collective(1), 100);
    bare.member->post_receive(posted.message);
    nonsense(bare);
    ASSERT_EQ(bare.member.lost.size(), 1u) << what;
    EXPECT_EQ(bare.member.lost[0].first, 1u);
    EXPECT_EQ(bare.member.lost[0].second.code(), StatusCode::io_error) << what;
    EXPECT_EQ(bare.member.lost[0].second.ranks(), std::vector<Rank>{1}) << what;
    EXPECT_EQ(posted.message.state, Message::State::posted) << what;
    bare.member->cancel(posted.message);
    Parcel after(1, collective(2), 1 << 20);
    bare.member->post_send(after.message);
    bare.member->progress();
    EXPECT_EQ(after.message.state, Message::State::posted) << what;
    bare.member->cancel(after.message);
  };
  Frame fine;
  fine.kind = FrameKind::announce;
  broken_by("garbage", [](Bare& bare) { bare.write(std::string(64, 'x').data(), 64); });
  broken_by("token", [&](Bare& bare) { bare.say(fine, 8); });
  broken_by("epoch", [&](Bare& bare) { bare.say(fine, 7, 2); });
  broken_by("kind", [&](Bare& bare) { bare.say({static_cast<FrameKind>(77)}); });
  broken_by("lane", [&](Bare& bare) { bare.say({FrameKind::announce, {static_cast<MessageKey::Lane>(5)}}); });
  broken_by("payload", [&](Bare& bare) { bare.say({FrameKind::announce, {}, 0, 10, 0, 10}); });
  broken_by("eager", [&](Bare& bare) { bare.say({FrameKind::eager, {}, 0, 1 << 20, 0, 1 << 20}); });
  broken_by("huge", [&](Bare& bare) { bare.say({FrameKind::data, {}, 0, ~0ull, 0, ~0u}); });
  broken_by("beyond", [&](Bare& bare) { bare.say({FrameKind::data, {}, 0, 100, ~0ull, 100}); });
  broken_by("cut", [&](Bare& bare) { bare.say({FrameKind::data, {}, 0, 100, 0, 7}); });
  broken_by("credit", [&](Bare& bare) { bare.say({FrameKind::credit, {}, 0, 1}); });
  broken_by("window", [&](Bare& bare) {
    for (uint32_t i = 0; i < 20; ++i) bare.say({FrameKind::eager, pairwise(i, 0), 0, 60000, 0, 60000}, 7, 1, 60000);
  });
}

TEST(TcpFaults, RandomBytesNeverHurt) {
  std::mt19937 random(42);
  for (int round = 0; round < 300; ++round) {
    Bare bare(Wire::unix_socket);
    Parcel posted(1, collective(1), 200000);
    bare.member->post_receive(posted.message);
    for (int i = 0; i < 5 && bare.member.lost.empty(); ++i) {
      std::vector<std::byte> bytes(tcp::kHeaderBytes + 512);
      Frame frame;
      frame.kind = static_cast<FrameKind>(1 + random() % 7);
      frame.key = collective(random() % 2, random() % 2);
      frame.fingerprint = random() % 2 == 0 ? 99 : 1;
      frame.total = random() % 2 == 0 ? 200000 : random();
      frame.payload = static_cast<uint32_t>(random() % 600);
      tcp::encode(frame, {7, 1}, bytes.data());
      if (random() % 4 == 0) bytes[random() % tcp::kHeaderBytes] = static_cast<std::byte>(random());
      bare.write(bytes.data(), random() % bytes.size());
    }
    EXPECT_TRUE(posted.guards_hold());
    bare.member->cancel(posted.message);
  }
}

TEST_P(TcpFaultsOn, EndIsReportedOnceAndWhatCameStays) {
  Mesh mesh(2, GetParam());
  Parcel sent(1, pairwise(3, 0), 50000), got(0, pairwise(3, 0), 50000), never(0, pairwise(3, 1), 10);
  sent.fill(1);
  mesh[1]->post_receive(never.message);
  mesh[0]->post_send(sent.message);
  ASSERT_TRUE(mesh.drive([&] { return sent.done(); }));
  mesh[0].transport.reset();
  for (int i = 0; i < 2000; ++i) mesh[1]->progress();
  ASSERT_EQ(mesh[1].lost.size(), 1u);
  EXPECT_EQ(mesh[1].lost[0].first, 0u);
  EXPECT_EQ(mesh[1].lost[0].second.code(), StatusCode::peer_lost);
  EXPECT_EQ(never.message.state, Message::State::posted);
  mesh[1]->post_receive(got.message);
  EXPECT_TRUE(got.done());
  EXPECT_EQ(sent.content(), got.content());
  mesh[1]->cancel(never.message);
}

TEST_P(TcpFaultsOn, WritingToTheDeadIsReportedAfterTheirLastWords) {
  Bare bare(GetParam());
  Parcel got(1, pairwise(0, 0), 100), sent(1, pairwise(1, 0), 60000), large(1, pairwise(2, 0), 8 << 20);
  std::vector<std::byte> bytes(tcp::kHeaderBytes + 100);
  tcp::encode({FrameKind::eager, pairwise(0, 0), 99, 100, 0, 100}, {7, 1}, bytes.data());
  ASSERT_EQ(::send(bare.socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  bare.socket.reset();
  bare.member->post_send(sent.message);
  bare.member->post_send(large.message);
  const base::Time deadline = base::deadline_after(std::chrono::seconds(5));
  while (bare.member.lost.empty() && base::Clock::now() < deadline) bare.member->progress();
  ASSERT_EQ(bare.member.lost.size(), 1u);
  EXPECT_EQ(bare.member.lost[0].second.code(), StatusCode::peer_lost);
  bare.member->post_receive(got.message);
  EXPECT_TRUE(got.done());
  bare.member->cancel(large.message);
  bare.member->cancel(sent.message);
}

// A socket that is closed with something unread in it resets the stream, which would take with it what the kernel has
// not sent yet: here a frame that comes after the last progress, while the peer reads slowly.
TEST(TcpFaults, GoingLosesNothing) {
  Bare bare;
  const int small = 16384;
  ::setsockopt(bare.socket.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  constexpr uint32_t kMessages = 8, kBytes = 60000;
  std::vector<std::unique_ptr<Parcel>> sent;
  for (uint32_t i = 0; i < kMessages; ++i) {
    sent.push_back(std::make_unique<Parcel>(1, pairwise(i, 0), kBytes));
    bare.member->post_send(sent.back()->message);
  }
  const base::Time deadline = base::deadline_after(std::chrono::seconds(10));
  while (!sent.back()->done() && base::Clock::now() < deadline) bare.member->progress();
  ASSERT_TRUE(sent.back()->done());
  std::vector<std::byte> unread(tcp::kHeaderBytes);
  tcp::encode({FrameKind::announce, pairwise(0, 0), 0, 10}, {7, 1}, unread.data());
  ASSERT_EQ(::send(bare.socket.get(), unread.data(), unread.size(), 0), static_cast<ssize_t>(unread.size()));
  uint64_t got = 0;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<std::byte> into(4096);
    for (;;) {
      const ssize_t bytes = ::recv(bare.socket.get(), into.data(), into.size(), 0);
      if (bytes <= 0) return;
      got += static_cast<uint64_t>(bytes);
    }
  });
  bare.member.transport.reset();
  reader.join();
  EXPECT_EQ(got, kMessages * (kBytes + tcp::kHeaderBytes));
}

}  // namespace
}  // namespace regroup::transport
