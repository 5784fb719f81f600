// Every kind of wrong handshake, and bytes that are not envelopes: the connection ends, and nothing
// else does.

#include "e2e/o2g/raw_peer_fixture.hpp"

namespace tanada::test {
namespace {

TEST_F(raw_peer_test, garbage_instead_of_a_greeting) {
  peer.connect(attacked->address());
  std::string const garbage(1000, 'x');
  (void)peer.send(garbage.data(), garbage.size());
  refuses();
}

TEST_F(raw_peer_test, half_an_envelope_and_then_the_end) {
  peer.connect(attacked->address());
  envelope const head = head_of(kind::hello, 100);
  ASSERT_TRUE(peer.send(&head, 20));
  peer.close();
}

TEST_F(raw_peer_test, envelopes_in_pieces_of_one_byte) {
  peer.greet(attacked->address());
  std::string came(5, ' ');
  ASSERT_EQ(post_receive(came, 7), status::ok);
  envelope const head = message_head(5, 7);
  std::string const bytes =
      std::string{reinterpret_cast<const char *>(&head), sizeof head} + "hello";
  for (char const each : bytes)
    ASSERT_TRUE(peer.send(&each, 1));
  EXPECT_EQ(next_code(), status::ok);
  EXPECT_EQ(came, "hello");
}

struct raw_envelope_test : raw_peer_test, testing::WithParamInterface<bool> {
  // Sends it before or after a valid handshake.
  void says(const envelope &head) {
    if (GetParam())
      peer.greet(attacked->address());
    else
      peer.connect(attacked->address());
    (void)peer.send(head);
    refuses();
  }
};
INSTANTIATE_TEST_SUITE_P(greeted, raw_envelope_test, testing::Bool());

TEST_P(raw_envelope_test, a_wrong_mark) {
  envelope head = message_head(0, 0);
  head.mark ^= 1;
  says(head);
}

TEST_P(raw_envelope_test, no_kind) {
  says(head_of(kind(0)));
}
TEST_P(raw_envelope_test, an_unknown_kind) {
  says(head_of(kind(wire::o2g::kind_last + 1)));
}

TEST_P(raw_envelope_test, an_unknown_flag) {
  envelope head = message_head(0, 0);
  head.flags = wire::o2g::flags_all + 1;
  says(head);
}

TEST_P(raw_envelope_test, what_is_reserved) {
  envelope head = message_head(0, 0);
  head.reserved = 1;
  says(head);
}

TEST_P(raw_envelope_test, a_length_of_2_to_the_63) {
  for (kind const what : {kind::hello,
                          kind::message,
                          kind::announce,
                          kind::put,
                          kind::get,
                          kind::atomic,
                          kind::ack}) {
    says(head_of(what, uint64_t{1} << 63));
    peer.close();
  }
}

TEST_P(raw_envelope_test, a_second_greeting_or_none) {
  says(GetParam() ? head_of(kind::hello) : message_head(0, 0));
}

// The peer may claim it, but is never sent a limit that large: memory and other connections are not
// at risk.
TEST_F(raw_peer_test, a_message_of_the_largest_size) {
  peer.greet(attacked->address());
  std::string body(100'000, 'b');
  (void)peer.send(message_head(wire::o2g::message_size_max, 7), body);
  refuses();
  EXPECT_EQ(attacked->speaker->statistics().unexpected_size_peak, 0u);
}

TEST_F(raw_peer_test, a_message_of_the_largest_size_that_is_expected) {
  peer.greet(attacked->address());
  std::string came(1000, ' ');
  ASSERT_EQ(post_receive(came, 7, peer_index()), status::ok);
  (void)peer.send(message_head(wire::o2g::message_size_max, 7));
  refuses();
  EXPECT_EQ(next_code(), status::protocol);
}

struct raw_refusal_test : raw_peer_test {
  // The endpoint answers this handshake with a refusal that has the reason, and ends the
  // connection.
  void is_refused(const hello_message &mine, const char *reason) {
    peer.connect(attacked->address());
    ASSERT_TRUE(peer.send(kind::hello, mine));
    envelope answer;
    std::string why;
    ASSERT_TRUE(peer.receive(answer, &why));
    EXPECT_EQ(answer.kind, uint8_t(kind::refuse));
    EXPECT_NE(why.find(reason), std::string::npos);
    refuses();
  }
};

TEST_F(raw_refusal_test, a_wrong_cookie) {
  hello_message mine = peer.hello();
  mine.cookie = "another job's";
  is_refused(mine, "TND_O2G_COOKIE");
}

TEST_F(raw_refusal_test, a_foreign_version) {
  hello_message mine = peer.hello();
  mine.version++;
  is_refused(mine, ("version " + std::to_string(mine.version)).c_str());
}

TEST_F(raw_peer_test, a_greeting_cut_short) {
  peer.connect(attacked->address());
  std::vector<std::byte> body;
  wire::encode(peer.hello(), body);
  body.resize(body.size() - 1);
  (void)peer.send(head_of(kind::hello, body.size()),
                  {reinterpret_cast<const char *>(body.data()), body.size()});
  refuses();
}

TEST_F(raw_peer_test, hello_twice) {
  peer.greet(attacked->address());
  (void)peer.send(kind::hello, peer.hello());
  refuses();
}

struct raw_address_test : raw_peer_test {
  // A handshake with this address ends its connection.
  void is_no_address(uint8_t family, uint16_t port) {
    hello_message mine = peer.hello();
    mine.family = family;
    mine.port = port;
    peer.connect(attacked->address());
    (void)peer.send(kind::hello, mine);
    refuses();
    peer.close();
  }
};

TEST_F(raw_address_test, the_endpoints_own) {
  is_no_address(4, attacked->address().port);
}

TEST_F(raw_address_test, none) {
  for (uint8_t const family : {0, 5})
    is_no_address(family, peer.address.port);
  is_no_address(4, 0);
}

TEST_F(raw_peer_test, a_welcome_and_a_refusal_that_nobody_asked_for) {
  for (kind const what : {kind::welcome, kind::refuse}) {
    peer.connect(attacked->address());
    (void)peer.send(what, peer.hello());
    refuses();
    peer.close();
  }
}

struct raw_silence_test : raw_peer_test {
  void SetUp() override {
    make({.connect_timeout_ns = 300'000'000});
  }
};

// No thread polls: the endpoint's own thread must detect it.
TEST_F(raw_silence_test, a_greeting_that_never_comes) {
  peer.connect(attacked->address());
  refuses();
}

TEST_F(raw_silence_test, a_welcome_that_never_comes) {
  std::string sent = "anything";
  ASSERT_EQ(post_send(sent, false), status::ok);
  peer.accept();
  EXPECT_EQ(next_code(), status::timed_out);
}

TEST_F(raw_peer_test, a_welcome_of_another_job_and_one_that_is_hello) {
  for (kind const what : {kind::welcome, kind::hello}) {
    std::string sent = "anything";
    ASSERT_EQ(post_send(sent, false), status::ok);
    peer.accept();
    hello_message mine = peer.hello();
    mine.cookie = what == kind::welcome ? "another job's" : "";
    ASSERT_TRUE(peer.send(what, mine));
    EXPECT_EQ(next_code(), what == kind::welcome ? status::access : status::protocol);
    peer.close();
  }
}

// The peer was killed and restarted at its old address before this was detected; or it has lost its
// connection.
TEST_F(raw_peer_test, a_greeting_of_one_who_was_here_before) {
  for (uint8_t const number : {43, 42}) {
    peer.close();
    peer.greet(attacked->address());
    std::string came(8, ' ');
    ASSERT_EQ(post_receive(came, 1, peer_index()), status::ok);
    raw_peer again;
    hello_message mine = peer.hello();
    mine.endpoint = {number};
    again.connect(attacked->address());
    ASSERT_TRUE(again.send(kind::hello, mine));
    envelope answer;
    ASSERT_TRUE(again.receive(answer));
    EXPECT_EQ(answer.kind, uint8_t(kind::welcome));
    EXPECT_EQ(next_code(), status::peer_lost);
    refuses();
  }
}

}  // namespace
}  // namespace tanada::test
