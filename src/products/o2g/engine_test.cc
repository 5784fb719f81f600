// Messages between two engines: expected, unexpected and by rendezvous, their order, and discarding
// them.

#include "products/o2g/engine.hpp"

#include <cstring>

#include "core/wire/o2g.hpp"
#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {
namespace {

struct messages : two_engines, testing::WithParamInterface<size_t> {
  size_t const size = GetParam();
  std::vector<char> sent = pattern(size), received = std::vector<char>(size);
};
INSTANTIATE_TEST_SUITE_P(sizes, messages, sizes());

TEST_P(messages, come_expected) {
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(b->done.events[0].code, status::ok);
  EXPECT_EQ(b->done.events[0].size, size);
  EXPECT_EQ(b->done.events[0].tag, 7u);
  EXPECT_EQ(received, sent);
}

TEST_P(messages, come_unexpected) {
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 0));
  for (int i = 0; i < 1000; i++)
    b->speaker->poll();
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(received, sent);
}

TEST_P(messages, are_taken_while_they_arrive) {
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(wait_unexpected(1));
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(b->speaker->statistics().unexpected_size, 0u);
}

// The sender's request completes, although the message was discarded.
TEST_P(messages, are_discarded_while_they_arrive) {
  ASSERT_EQ(send(*a, *b, sent, 7, true), status::ok);
  ASSERT_TRUE(wait_unexpected(1));
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true, .discard = true}),
            status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(a->done.events[0].code, status::ok);
  EXPECT_EQ(b->done.events[0].size, size);
  EXPECT_EQ(b->speaker->statistics().unexpected_size, 0u);
}

TEST_P(messages, are_announced_when_there_is_no_room) {
  make({.unexpected_size_soft = 1024});
  ASSERT_EQ(send(*a, *b, sent, 7, true), status::ok);
  for (int i = 0; i < 1000; i++) {
    a->speaker->poll();
    b->speaker->poll();
  }
  EXPECT_EQ(a->done.events.size(), 0u);  // it completes only on delivery
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a->speaker->statistics().rendezvous_count, size > 1024 ? 1u : 0u);
}

TEST_P(messages, are_said_to_oneself) {
  ASSERT_EQ(send(*a, *a, sent, 7, true), status::ok);
  ASSERT_EQ(receive(*a, received, 7), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(received, sent);
}

TEST_P(messages, are_announced_to_oneself_when_there_is_no_room) {
  make({.unexpected_size_soft = 1024, .unexpected_size_hard = 1 << 20});
  ASSERT_EQ(send(*a, *a, sent, 7), status::ok);
  ASSERT_EQ(receive(*a, received, 7), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(a->done.events[0].code, status::ok);
  EXPECT_EQ(a->done.events[1].code, status::ok);
  EXPECT_EQ(received, sent);
}

// A flood is batched; a larger message is received after it, in order.
TEST_F(two_engines, keep_a_flood_in_order) {
  constexpr int count = 5000;
  std::vector<std::vector<char>> sent, received;
  for (int i = 0; i < count; i++) {
    size_t const size = i % 97 == 0 ? 3000 : size_t(i % 200);
    sent.push_back(pattern(size, i));
    received.emplace_back(size);
  }
  ASSERT_NO_FATAL_FAILURE(exchange_first());
  for (auto &buffer : sent)
    ASSERT_EQ(send(*a, *b, buffer, 7), status::ok);
  for (auto &buffer : received)
    ASSERT_EQ(receive(*b, buffer, 7), status::ok);
  ASSERT_TRUE(settle(1 + count, 1 + count));
  EXPECT_EQ(received, sent);
}

TEST_F(two_engines, keep_order_under_wildcards) {
  std::vector<std::vector<char>> sent, received(100, std::vector<char>(4));
  for (int i = 0; i < 100; i++)
    sent.push_back(pattern(4, i));
  for (int i = 0; i < 50; i++)
    ASSERT_EQ(receive(*b, received[size_t(i)], 0, ~uint64_t{0}), status::ok);
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(send(*a, *b, sent[size_t(i)], uint64_t(i)), status::ok);
  for (int i = 50; i < 100; i++)
    ASSERT_EQ(receive(*b, received[size_t(i)], 0, ~uint64_t{0}), status::ok);
  ASSERT_TRUE(settle(100, 100));
  EXPECT_EQ(received, sent);
}

// Programs poll until there is no completion left. So a poll right after a completion must not
// sleep, also if a post caused the completion. Polls may sleep in this test.
TEST_F(two_engines, do_not_sleep_right_after_a_completion) {
  b = std::make_unique<kept_endpoint>(
      engine_options{.sleep_ns_max = 250'000'000, .has_thread = false});
  auto sent = pattern(64);
  std::vector<char> received(64);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(wait_unexpected(1));
  // After so many sleeps, one more poll would continue the same wait and sleep.
  ASSERT_TRUE(poll_until({b.get()}, [&] { return b->speaker->statistics().sleep_count >= 40; }));
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_EQ(b->done.events.size(), 1u);
  uint64_t const before = b->speaker->statistics().sleep_count;
  b->speaker->poll();
  EXPECT_EQ(b->speaker->statistics().sleep_count, before);
}

TEST_F(two_engines, cut_what_is_too_long) {
  auto sent = pattern(100'000);
  std::vector<char> received(1000);
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(b->done.events[0].code, status::overflow);
  EXPECT_EQ(b->done.events[0].size, 1000u);
  EXPECT_EQ(b->done.events[0].truncated_size, 99'000u);
}

TEST_F(two_engines, cancel_what_has_not_matched) {
  std::vector<char> received(8);
  int context = 0;
  ASSERT_EQ(receive(*b, received, 7, 0, &context), status::ok);
  EXPECT_EQ(b->speaker->cancel(&context), status::ok);
  ASSERT_EQ(b->done.events.size(), 1u);
  EXPECT_EQ(b->done.events[0].code, status::canceled);
  EXPECT_EQ(b->speaker->cancel(&context), status::no_entry);
}

TEST_F(two_engines, fill_a_buffer_for_many) {
  std::vector<char> buffer(100);
  iovec const part = part_of(buffer);
  ASSERT_EQ(b->speaker->post_receive({.parts = {&part, 1}, .multi_receive_min = 30}), status::ok);
  auto sent = pattern(25);
  iovec const piece = part_of(sent);
  for (int i = 0; i < 3; i++)
    ASSERT_EQ(a->speaker->post_send({.target = a->peer(*b), .parts = {&piece, 1}}), status::ok);
  ASSERT_TRUE(settle(3, 3));
  EXPECT_FALSE(b->done.events[0].buffer_done);
  EXPECT_FALSE(b->done.events[1].buffer_done);
  EXPECT_TRUE(b->done.events[2].buffer_done);
  EXPECT_EQ(b->done.events[2].buffer, reinterpret_cast<std::byte *>(buffer.data()) + 50);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), buffer.begin() + 50));
}

TEST_F(two_engines, peek_claim_and_discard) {
  auto sent = pattern(100);
  int context = 0;
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true}), status::ok);
  ASSERT_EQ(b->done.events.back().code, status::no_entry);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 8), status::ok);
  ASSERT_TRUE(wait_unexpected(2));
  ASSERT_EQ(b->speaker->post_peek(
                {.pattern = {7, 0, any_peer}, .tagged = true, .claim = true, .context = &context}),
            status::ok);
  EXPECT_EQ(b->done.events.back().size, 100u);
  ASSERT_EQ(b->speaker->post_peek({.pattern = {8, 0, any_peer}, .tagged = true, .discard = true}),
            status::ok);
  EXPECT_EQ(b->done.events.back().code, status::ok);
  std::vector<char> received(100);
  iovec const part = part_of(received);
  ASSERT_EQ(
      b->speaker->post_receive_claimed({.parts = {&part, 1}, .tagged = true, .context = &context}),
      status::ok);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(b->speaker->statistics().unexpected_size, 0u);
}

// The sender has credit for a part of the messages. The others wait at its side.
TEST_F(two_engines, hold_a_flood_beyond_all_limits_without_loss) {
  constexpr size_t message_count = 5000;
  b = open({.unexpected_size_soft = 64 << 10, .unexpected_size_hard = 128 << 10});
  auto sent = pattern(1024);
  for (size_t i = 0; i < message_count; i++) {
    std::memcpy(sent.data(), &i, sizeof i);
    iovec const part = part_of(sent);
    ASSERT_EQ(a->speaker->post_send({.target = a->peer(*b),
                                     .parts = {&part, 1},
                                     .tag = 1,
                                     .tagged = true,
                                     .inject = true,
                                     .errors_only = true}),
              status::ok);
  }
  ASSERT_TRUE(wait_unexpected(message_count));
  EXPECT_LE(b->speaker->statistics().unexpected_size,
            (128 << 10) + message_count * wire::o2g::message_overhead);
  EXPECT_GT(a->speaker->statistics().rendezvous_count, message_count / 2);
  std::vector<char> received(1024);
  for (size_t i = 0; i < message_count; i++) {
    b->done.events.clear();
    ASSERT_EQ(receive(*b, received, 1), status::ok);
    ASSERT_TRUE(settle(0, 1));
    ASSERT_EQ(b->done.events[0].code, status::ok);
    size_t number = 0;
    std::memcpy(&number, received.data(), sizeof number);
    ASSERT_EQ(number, i);
  }
  EXPECT_EQ(b->speaker->statistics().unexpected_size, 0u);
}

TEST_F(two_engines, refuse_injected_messages_when_copies_fill_the_queue) {
  a = open({.send_queue_size = 1 << 20});
  b = open({.unexpected_size_soft = 0});
  auto sent = pattern(1024);
  iovec const part = part_of(sent);
  size_t count = 0;
  for (uint64_t fruitless = 0; fruitless < 1000 && count < 10'000;) {
    status const code = a->speaker->post_send({.target = a->peer(*b),
                                               .parts = {&part, 1},
                                               .tag = 1,
                                               .tagged = true,
                                               .inject = true,
                                               .errors_only = true});
    ASSERT_TRUE(code == status::ok || code == status::again);
    count += code == status::ok;
    fruitless = code == status::ok ? 0 : fruitless + 1;
    b->speaker->poll();
  }
  EXPECT_GT(count, 100u);
  EXPECT_LT(count, 1000u);
  std::vector<char> received(1024);
  for (size_t i = 0; i < count; i++)
    ASSERT_EQ(receive(*b, received, 1), status::ok);
  ASSERT_TRUE(settle(0, count));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a->speaker->post_send({.target = a->peer(*b), .parts = {&part, 1}, .inject = true}),
            status::ok);
}

// Credit that was used up is granted again when receives have matched.
TEST_F(two_engines, renew_credit) {
  b = open({.unexpected_size_soft = 64 << 10});
  auto sent = pattern(10'000);
  std::vector<char> received(10'000);
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
    ASSERT_EQ(receive(*b, received, 1), status::ok);
    ASSERT_TRUE(settle(size_t(i + 1), size_t(i + 1)));
  }
  EXPECT_EQ(a->speaker->statistics().rendezvous_count, 0u);
}

}  // namespace
}  // namespace tanada::o2g
