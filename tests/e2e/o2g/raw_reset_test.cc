// Connections that break in every state.

#include "e2e/o2g/raw_peer_fixture.hpp"

namespace tanada::test {
namespace {

struct raw_reset_test : raw_request_test {};

TEST_F(raw_reset_test, while_memory_is_asked_for) {
  envelope const head = at_region(kind::get, 0, region_size);
  for (int i = 0; i < 100; i++)
    ASSERT_TRUE(peer.send(head));
  peer.reset();
}

TEST_F(raw_reset_test, within_an_envelope) {
  envelope const head = message_head(100, 7);
  ASSERT_TRUE(peer.send(&head, 20));
  std::string came(8, ' ');
  ASSERT_EQ(post_receive(came, 7, peer_index()), status::ok);
  peer.reset();
  EXPECT_EQ(next_code(), status::peer_lost);
}

TEST_F(raw_reset_test, within_a_message_that_is_expected) {
  for (size_t const size : {1000, 1'000'000}) {
    std::string came(size, ' '), rest = std::string(50, ' ');
    ASSERT_EQ(post_receive(came, 7), status::ok);
    ASSERT_TRUE(peer.send(message_head(size, 7), std::string(size / 2, 'm')));
    ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().received_count != 0; }));
    peer.reset();
    EXPECT_EQ(next_code(), status::peer_lost);
    peer.greet(attacked->address());
  }
}

TEST_F(raw_reset_test, within_a_message_that_nobody_expected) {
  for (size_t const size : {1000, 1'000'000}) {
    ASSERT_TRUE(peer.send(message_head(size, 7), std::string(size / 2, 'm')));
    ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().unexpected_size != 0; }));
    peer.reset();
    EXPECT_TRUE(soon([&] { return attacked->speaker->statistics().unexpected_size == 0; }));
    peer.greet(attacked->address());
  }
}

TEST_F(raw_reset_test, after_a_receive_has_taken_what_was_coming) {
  std::string came(1'000'000, ' ');
  ASSERT_TRUE(peer.send(message_head(came.size(), 7), std::string(1000, 'm')));
  ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().unexpected_size != 0; }));
  ASSERT_EQ(post_receive(came, 7), status::ok);
  peer.reset();
  EXPECT_EQ(next_code(), status::peer_lost);
}

TEST_F(raw_reset_test, after_what_was_coming_was_claimed_or_is_not_wanted) {
  for (bool const claim : {true, false}) {
    ASSERT_TRUE(peer.send(message_head(100'000, 7), std::string(1000, 'm')));
    ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().unexpected_size != 0; }));
    ASSERT_EQ(attacked->speaker->post_peek({.pattern = {7, 0, o2g::any_peer},
                                            .tagged = true,
                                            .claim = claim,
                                            .discard = !claim,
                                            .context = this}),
              status::ok);
    EXPECT_EQ(next_code(), status::ok);
    peer.reset();
    EXPECT_TRUE(soon([&] { return attacked->speaker->statistics().connection_count == 0; }));
    if (claim) {  // reported when the claimed message is received
      std::string came(100'000, ' ');
      iovec const part{came.data(), came.size()};
      ASSERT_EQ(attacked->speaker->post_receive_claimed(
                    {.parts = {&part, 1}, .tagged = true, .context = this}),
                status::ok);
      EXPECT_EQ(next_code(), status::peer_lost);
    }
    EXPECT_EQ(attacked->speaker->statistics().unexpected_size, 0u);
    peer.greet(attacked->address());
  }
}

TEST_F(raw_reset_test, between_pull_and_body) {
  std::string came(1000, ' ');
  (void)pulled(came, 5000);
  peer.reset();
  EXPECT_EQ(next_code(), status::peer_lost);
}

TEST_F(raw_reset_test, within_a_body) {
  std::string came(100'000, ' ');
  uint64_t const number = pulled(came, came.size());
  ASSERT_TRUE(peer.send(numbered(kind::body, number, came.size()), std::string(50'000, 'b')));
  peer.reset();
  EXPECT_EQ(next_code(), status::peer_lost);
}

TEST_F(raw_reset_test, before_and_within_a_pull) {
  for (bool const is_begun : {false, true}) {
    std::string sent(64 << 20, 's');
    uint64_t const id = announced(sent, false);
    ASSERT_TRUE(!is_begun || peer.send(numbered(kind::pull, id, sent.size())));
    peer.reset();
    EXPECT_EQ(next_code(), status::peer_lost);
    peer.greet(attacked->address());
  }
}

TEST_F(raw_reset_test, within_a_put) {
  ASSERT_TRUE(peer.send(at_region(kind::put, 0, region_size), std::string(region_size / 2, 'p')));
  peer.reset();
}

}  // namespace
}  // namespace tanada::test
