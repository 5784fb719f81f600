// Many unregistered peers: what they make the endpoint write and keep is bounded.

#include <algorithm>
#include <deque>

#include "e2e/o2g/raw_peer_fixture.hpp"

namespace tanada::test {
namespace {

struct stranger_test : raw_peer_test {
  static constexpr uint32_t stranger_count_max = 4;

  void SetUp() override {
    make({.peer_count_max = 3, .unregistered_count_max = stranger_count_max});
  }
  uint64_t peer_count() const {
    return attacked->speaker->statistics().peer_count;
  }

  // Whether its handshake is accepted.
  bool greet(raw_peer &who) {
    who.connect(attacked->address());
    envelope answer;
    return who.send(kind::hello, who.hello()) && who.receive(answer) &&
           kind(answer.kind) == kind::welcome;
  }
};

// A process that can reach the port must not flood the log.
TEST_F(raw_peer_test, rubbish_in_a_loop_is_told_of_in_few_lines) {
  testing::internal::CaptureStderr();
  constexpr int count = 200;
  std::string const garbage(100, 'x');
  for (int i = 0; i < count; i++) {
    raw_peer other;
    other.connect(attacked->address());
    (void)other.send(garbage.data(), garbage.size());
    EXPECT_TRUE(other.is_closed());
  }
  peer.greet(attacked->address());
  for (int i = 0; i < count; i++)
    (void)peer.send(at_region(kind::get, 0, 8, region_key + 1));
  envelope answer;
  for (int i = 0; i < count; i++)
    ASSERT_TRUE(peer.receive(answer));
  std::string const said = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::ranges::count(said, '\n'), 30) << said;
}

TEST_F(stranger_test, who_is_gone_makes_room) {
  for (uint32_t i = 0; i < 5 * stranger_count_max; i++) {
    raw_peer other;
    EXPECT_TRUE(greet(other)) << i;
    other.close();
    EXPECT_TRUE(soon([&] { return attacked->speaker->statistics().connection_count == 0; }));
    EXPECT_LE(peer_count(), stranger_count_max);
  }
}

TEST_F(stranger_test, who_is_there_stays_and_the_next_is_refused) {
  std::deque<raw_peer> others(stranger_count_max);
  for (raw_peer &each : others)
    EXPECT_TRUE(greet(each));
  raw_peer late;
  EXPECT_FALSE(greet(late));
  // The program's own peers have reserved capacity, and naming a peer frees that of an unregistered
  // one.
  EXPECT_TRUE(attacked->speaker->register_peer(others.front().address).ok());
  EXPECT_TRUE(greet(late));
  EXPECT_LE(peer_count(), stranger_count_max + 1);
  for (raw_peer &each : others)
    each.close();
  late.close();
}

// A peer that left a message is kept until the message is received.
TEST_F(stranger_test, who_left_a_message_keeps_its_number) {
  raw_peer writer;
  ASSERT_TRUE(greet(writer));
  ASSERT_TRUE(writer.send(message_head(5, 7), "hello"));
  ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().unexpected_size != 0; }));
  writer.close();
  for (uint32_t i = 0; i < 3 * stranger_count_max; i++) {
    ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().connection_count == 0; }));
    raw_peer other;
    EXPECT_TRUE(greet(other)) << i;
    other.close();
  }
  std::string came(5, ' ');
  ASSERT_EQ(post_receive(came, 7), status::ok);
  EXPECT_EQ(next_code(), status::ok);
  EXPECT_EQ(attacked->speaker->peer_address(attacked->done.at(0).source), writer.address);
}

}  // namespace
}  // namespace tanada::test
