// Every kind of wrong request and answer after a valid handshake.

#include "e2e/o2g/raw_peer_fixture.hpp"

namespace tanada::test {
namespace {

TEST_F(raw_request_test, numbers_that_were_never_given) {
  for (kind const what : {kind::pull, kind::body, kind::ack, kind::get_reply, kind::fetch_reply}) {
    for (uint64_t const id : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
      says(numbered(what, id));
      greet_anew();
    }
  }
}

TEST_F(raw_request_test, a_pull_larger_than_what_was_announced) {
  std::string sent(10'000, 's');
  envelope head = numbered(kind::pull, announced(sent, false), sent.size() + 1);
  says(head);
  EXPECT_EQ(next_code(), status::protocol);
}

TEST_F(raw_request_test, a_pull_of_less_and_then_another) {
  std::string sent(10'000, 's'), body;
  uint64_t const id = announced(sent, true);
  envelope head = numbered(kind::pull, id, 10);
  head.address = 1234;
  ASSERT_TRUE(peer.send(head));
  ASSERT_TRUE(peer.receive(head, &body));
  EXPECT_EQ(head.kind, uint8_t(kind::body));
  EXPECT_EQ(head.id, 1234u);
  EXPECT_EQ(body, sent.substr(0, 10));
  says(numbered(kind::pull, id, 10));
  EXPECT_EQ(next_code(), status::protocol);
}

TEST_F(raw_request_test, an_answer_of_another_kind_than_was_asked_for) {
  for (kind const what : {kind::get_reply, kind::fetch_reply}) {
    std::string sent(10'000, 's');
    says(numbered(what, announced(sent, true), 0));
    EXPECT_EQ(next_code(), status::protocol);
    greet_anew();
  }
}

TEST_F(raw_request_test, a_message_beyond_its_credit) {
  attacked->speaker.reset();
  make({.unexpected_size_soft = 4096, .unexpected_size_hard = 4096});
  greet_anew();
  for (int i = 0; i < 5; i++)
    ASSERT_TRUE(peer.send(message_head(0, 7)));
  EXPECT_TRUE(soon([&] { return attacked->speaker->statistics().unexpected_count == 5; }));
  says(message_head(4096, 7), std::string(4096, 'x'));
  kept_size = attacked->speaker->statistics().unexpected_size;
}

TEST_F(raw_request_test, less_credit_than_before) {
  peer.credit = uint64_t{1} << 20;
  greet_anew();
  std::string sent(100'000, 's'), body;
  envelope head = head_of(kind::credit);
  for (uint64_t const credit : {0, 1}) {
    head.data = credit;
    ASSERT_TRUE(peer.send(head));
  }
  ASSERT_EQ(post_send(sent, false), status::ok);
  ASSERT_TRUE(peer.receive(head, &body));
  EXPECT_EQ(head.kind, uint8_t(kind::message));
  EXPECT_EQ(body, sent);
}

TEST_F(raw_request_test, a_body_of_another_size_than_pulled) {
  for (int const more : {-1, 1}) {
    std::string came(1000, ' ');
    uint64_t const number = pulled(came, 5000);
    says(numbered(kind::body, number, uint64_t(1000 + more)),
         std::string(size_t(1000 + more), 'b'));
    EXPECT_EQ(next_code(), status::protocol);
    EXPECT_EQ(came, std::string(1000, ' '));
    greet_anew();
  }
}

TEST_F(raw_request_test, a_body_twice) {
  std::string came(1000, ' ');
  uint64_t const number = pulled(came, 1000);
  ASSERT_TRUE(peer.send(numbered(kind::body, number, 1000), std::string(1000, 'b')));
  EXPECT_EQ(next_code(), status::ok);
  EXPECT_EQ(came, std::string(1000, 'b'));
  says(numbered(kind::body, number, 1000), std::string(1000, 'c'));
  EXPECT_EQ(came, std::string(1000, 'b'));
}

TEST_F(raw_request_test, a_body_that_another_peer_was_to_send) {
  std::string came(1000, ' ');
  uint64_t const number = pulled(came, 1000);
  raw_peer other;
  other.greet(attacked->address());
  (void)other.send(numbered(kind::body, number, 1000), std::string(1000, 'b'));
  EXPECT_TRUE(other.is_closed());
  ASSERT_TRUE(peer.send(numbered(kind::body, number, 1000), std::string(1000, 'c')));
  EXPECT_EQ(next_code(), status::ok);
  EXPECT_EQ(came, std::string(1000, 'c'));
}

// The endpoint's second message waits behind one that fills the socket; its number can be guessed.
TEST_F(raw_request_test, thanks_for_what_was_not_sent_yet) {
  std::string large(64 << 20, 'l'), small = "small";
  peer.credit = uint64_t{1} << 30;
  greet_anew();
  ASSERT_EQ(post_send(large, false), status::ok);
  ASSERT_EQ(post_send(small, true), status::ok);
  ASSERT_TRUE(peer.send(numbered(kind::ack, uint64_t{1} << 32)));
  EXPECT_EQ(next_code(), status::protocol);
  EXPECT_EQ(next_code(), status::protocol);
}

// A get is answered with the data, or with the error.
TEST_F(raw_request_test, thanks_for_a_question) {
  std::string came(8, ' ');
  iovec const part{came.data(), came.size()};
  ASSERT_EQ(attacked->speaker->post_get(
                {.target = peer_index(), .parts = {&part, 1}, .remote = {0, 8, 1}}),
            status::ok);
  envelope head;
  ASSERT_TRUE(peer.receive(head));
  EXPECT_EQ(head.kind, uint8_t(kind::get));
  says(numbered(kind::ack, head.id));
  EXPECT_EQ(next_code(), status::protocol);
}

TEST_F(raw_request_test, an_answer_of_another_size_than_asked_for) {
  for (int const more : {-1, 1}) {
    std::string came(8, ' '), answer(size_t(8 + more), 'a');
    iovec const part{came.data(), came.size()};
    ASSERT_EQ(attacked->speaker->post_get(
                  {.target = peer_index(), .parts = {&part, 1}, .remote = {0, 8, 1}}),
              status::ok);
    envelope head;
    ASSERT_TRUE(peer.receive(head));
    says(numbered(kind::get_reply, head.id, answer.size()), answer);
    EXPECT_EQ(next_code(), status::protocol);
    EXPECT_EQ(came, "        ");
    greet_anew();
  }
}

TEST_F(raw_request_test, atomics_that_make_no_sense) {
  struct {
    uint8_t type, operation;
    uint64_t size, operand_size;
  } const all[] = {
      {255, 0, 8, 8},  // no such type
      {uint8_t(o2g::atomic_type_count), 0, 8, 8},
      {uint8_t(o2g::atomic_type::u64), 255, 8, 8},  // no such operation
      {uint8_t(o2g::atomic_type::u64), 0, 0, 0},    // of nothing
      {uint8_t(o2g::atomic_type::u64), 0, 7, 7},    // part of an element
      {uint8_t(o2g::atomic_type::u64), 0, 8, 16},   // more operands than elements
      {uint8_t(o2g::atomic_type::u64), 0, 16, 8},   // fewer
      {uint8_t(o2g::atomic_type::u8), 0, uint64_t{1} << 63, 8},
      {uint8_t(o2g::atomic_type::u64), uint8_t(o2g::atomic_operation::compare_swap), 8, 8},
      {uint8_t(o2g::atomic_type::f64), uint8_t(o2g::atomic_operation::bit_or), 8, 8},
      {uint8_t(o2g::atomic_type::f64_complex), uint8_t(o2g::atomic_operation::min), 16, 16},
  };
  for (auto const &each : all) {
    envelope head = at_region(kind::atomic, 0, each.operand_size);
    head.type = each.type;
    head.operation = each.operation;
    head.data = each.size;
    says(head, std::string(each.operand_size, 'o'));
    greet_anew();
  }
  EXPECT_EQ(region.find_first_not_of('r', guard_size), guard_size + region_size);
}

// Overflow wraps around.
TEST_F(raw_request_test, atomics_at_the_ends_of_their_types) {
  for (uint8_t type = 0; type < o2g::atomic_type_count; type++) {
    for (uint8_t operation = 0; operation < o2g::atomic_operation_count; operation++) {
      auto const what = o2g::atomic_operation(operation);
      if (!o2g::is_supported(o2g::atomic_type(type), what))
        continue;
      size_t const size = o2g::size_of(o2g::atomic_type(type));
      envelope head = at_region(kind::atomic,
                                0,
                                what == o2g::atomic_operation::read ? 0
                                : needs_compared(what)              ? 2 * size
                                                                    : size);
      head.flags = wire::o2g::fetches;
      head.type = type;
      head.operation = operation;
      head.data = size;
      head.id = 5;
      for (char const filling : {char(0xFF), char(0x7F), char(0x80)}) {
        ASSERT_TRUE(peer.send(at_region(kind::put, 0, 64), std::string(64, filling)));
        ASSERT_TRUE(peer.send(head, std::string(head.size, filling)));
        envelope answer;
        std::string before;
        ASSERT_TRUE(peer.receive(answer, &before));
        EXPECT_EQ(answer.kind, uint8_t(kind::fetch_reply));
        EXPECT_EQ(before.size(), size);
      }
    }
  }
}

TEST_F(raw_request_test, memory_that_was_not_offered) {
  struct {
    uint64_t address, size, key;
    status why;
  } const all[] = {{0, region_size + 1, region_key, status::fault},
                   {1, region_size, region_key, status::fault},
                   {region_size + 1, 0, region_key, status::fault},
                   {~uint64_t{0}, 2, region_key, status::fault},
                   {~uint64_t{0} - 99, 200, region_key, status::fault},
                   {0, 8, region_key + 1, status::no_entry}};
  for (auto const &each : all) {
    envelope head = at_region(kind::put, each.address, each.size, each.key), answer;
    head.flags = wire::o2g::wants_ack;
    head.id = 5;
    ASSERT_TRUE(peer.send(head, std::string(each.size, 'p')));
    ASSERT_TRUE(peer.receive(answer));
    EXPECT_EQ(answer.kind, uint8_t(kind::ack));
    EXPECT_EQ(wire::status_of(int32_t(answer.data)), each.why);
    head.kind = uint8_t(kind::get);
    head.flags = 0;
    ASSERT_TRUE(peer.send(head));
    ASSERT_TRUE(peer.receive(answer));
    EXPECT_EQ(answer.kind, uint8_t(kind::ack));
    EXPECT_EQ(wire::status_of(int32_t(answer.data)), each.why);
  }
  EXPECT_EQ(region.find_first_not_of('r', guard_size), guard_size + region_size);
  // The connection continues.
  std::string all_of_it;
  envelope head = at_region(kind::get, 0, region_size);
  ASSERT_TRUE(peer.send(head));
  ASSERT_TRUE(peer.receive(head, &all_of_it));
  EXPECT_EQ(all_of_it, region.substr(guard_size, region_size));
}

// Each of its requests is answered with 64 KiB; nothing is queued for it beyond a limit.
TEST_F(raw_request_test, questions_whose_answers_nobody_reads) {
  greet_anew(4096);
  std::string questions;
  for (int i = 0; i < 1000; i++) {
    envelope const head = at_region(kind::get, 0, i % 2 == 0 ? region_size : 16'000);
    questions.append(reinterpret_cast<const char *>(&head), sizeof head);
  }
  bool is_open = true;
  for (int i = 0; i < 1000 && is_open; i++)
    is_open = peer.send(questions.data(), questions.size());
  EXPECT_FALSE(is_open);
}

// It ends the put; or the connection, if that holds the region until more bytes arrive (a poller
// has requested more).
TEST_F(raw_request_test, a_region_taken_away_within_a_put) {
  for (bool const is_held : {false, true}) {
    envelope head = at_region(kind::put, 0, region_size);
    head.flags = wire::o2g::wants_ack;
    ASSERT_TRUE(peer.send(head, std::string(region_size / 2, 'p')));
    seams::monotonic_clock().sleep_ns(50'000'000);  // half of it arrives
    for (int i = 0; i < 100 && is_held; i++)
      attacked->speaker->poll();
    ASSERT_EQ(attacked->memory.remove(region_key, seams::monotonic_clock().now_ns() + 100'000'000),
              status::ok);
    std::string const now = region, rest(region_size / 2, 'q');
    EXPECT_EQ(now[guard_size + region_size / 2 - 1], 'p');
    (void)peer.send(rest.data(), rest.size());
    bool const is_answered = peer.receive(head);
    EXPECT_TRUE(is_answered || peer.is_closed());
    EXPECT_TRUE(!is_answered || wire::status_of(int32_t(head.data)) == status::fault);
    EXPECT_EQ(region, now);
    offer();
    peer.reset();
    peer.greet(attacked->address());
  }
}

// Queued answers use the region; a peer that does not read them must not hold it forever.
TEST_F(raw_request_test, a_region_taken_away_within_gets_that_nobody_reads) {
  greet_anew(4096);
  for (int i = 0; i < 200; i++)
    ASSERT_TRUE(peer.send(at_region(kind::get, 0, region_size)));
  ASSERT_TRUE(soon([&] { return attacked->speaker->statistics().connection_count != 0; }));
  seams::monotonic_clock().sleep_ns(100'000'000);  // until the socket accepts no more
  uint64_t const begin_ns = seams::monotonic_clock().now_ns();
  EXPECT_EQ(attacked->memory.remove(region_key, begin_ns + 100'000'000), status::ok);
  EXPECT_GE(seams::monotonic_clock().now_ns(), begin_ns + 100'000'000);
  refuses();
}

}  // namespace
}  // namespace tanada::test
