// Messages between two engines: expected, unexpected, announced; their order; what becomes of those
// nobody wants.

#include "products/o2g/engine.hpp"

#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {
namespace {

struct messages : two_engines, testing::WithParamInterface<size_t> {
  size_t const size = GetParam();
  std::vector<char> sent = pattern(size), came = std::vector<char>(size);
};
INSTANTIATE_TEST_SUITE_P(sizes, messages, sizes());

TEST_P(messages, come_expected) {
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(b->done.all[0].code, status::ok);
  EXPECT_EQ(b->done.all[0].size, size);
  EXPECT_EQ(b->done.all[0].tag, 7u);
  EXPECT_EQ(came, sent);
}

TEST_P(messages, come_unexpected) {
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 0));
  for (int i = 0; i < 1000; i++)
    b->speaker->poll();
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(came, sent);
}

TEST_P(messages, are_taken_while_they_arrive) {
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(unexpected(1));
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(came, sent);
  EXPECT_EQ(b->speaker->statistics().dump_size, 0u);
}

// Whoever sent it learns that it is not on its way any more.
TEST_P(messages, are_discarded_while_they_arrive) {
  ASSERT_EQ(send(*a, *b, sent, 7, true), status::ok);
  ASSERT_TRUE(unexpected(1));
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true, .discard = true}),
            status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(a->done.all[0].code, status::ok);
  EXPECT_EQ(b->done.all[0].size, size);
  EXPECT_EQ(b->speaker->statistics().dump_size, 0u);
}

TEST_P(messages, are_announced_when_there_is_no_room) {
  make({.dump_size_soft = 1024});
  ASSERT_EQ(send(*a, *b, sent, 7, true), status::ok);
  for (int i = 0; i < 1000; i++) {
    a->speaker->poll();
    b->speaker->poll();
  }
  EXPECT_EQ(a->done.all.size(), 0u);  // delivered means delivered
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(came, sent);
  EXPECT_EQ(a->speaker->statistics().announced_count, size > 1024 ? 1u : 0u);
}

TEST_P(messages, are_said_to_oneself) {
  ASSERT_EQ(send(*a, *a, sent, 7, true), status::ok);
  ASSERT_EQ(receive(*a, came, 7), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(came, sent);
}

TEST_P(messages, are_announced_to_oneself_when_there_is_no_room) {
  make({.dump_size_soft = 1024, .dump_size_hard = 1 << 20});
  ASSERT_EQ(send(*a, *a, sent, 7), status::ok);
  ASSERT_EQ(receive(*a, came, 7), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(a->done.all[0].code, status::ok);
  EXPECT_EQ(a->done.all[1].code, status::ok);
  EXPECT_EQ(came, sent);
}

// A flood is gathered; what is larger than that, or not a message, comes behind it in order.
TEST_F(two_engines, keep_a_flood_in_order) {
  constexpr int count = 5000;
  std::vector<std::vector<char>> sent, came;
  for (int i = 0; i < count; i++) {
    size_t const size = i % 97 == 0 ? 3000 : size_t(i % 200);
    sent.push_back(pattern(size, i));
    came.emplace_back(size);
  }
  ASSERT_NO_FATAL_FAILURE(greet());
  for (auto &each : sent)
    ASSERT_EQ(send(*a, *b, each, 7), status::ok);
  for (auto &each : came)
    ASSERT_EQ(receive(*b, each, 7), status::ok);
  ASSERT_TRUE(settle(1 + count, 1 + count));
  EXPECT_EQ(came, sent);
}

TEST_F(two_engines, keep_order_under_wildcards) {
  std::vector<std::vector<char>> sent, came(100, std::vector<char>(4));
  for (int i = 0; i < 100; i++)
    sent.push_back(pattern(4, i));
  for (int i = 0; i < 50; i++)
    ASSERT_EQ(receive(*b, came[size_t(i)], 0, ~uint64_t{0}), status::ok);
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(send(*a, *b, sent[size_t(i)], uint64_t(i)), status::ok);
  for (int i = 50; i < 100; i++)
    ASSERT_EQ(receive(*b, came[size_t(i)], 0, ~uint64_t{0}), status::ok);
  ASSERT_TRUE(settle(100, 100));
  EXPECT_EQ(came, sent);
}

// Programs read on until nothing is left: after each completion, also one that a post brought
// about. Polls may sleep here.
TEST_F(two_engines, do_not_sleep_right_after_a_completion) {
  b = std::make_unique<kept_endpoint>(
      engine_options{.sleep_ns_max = 250'000'000, .has_thread = false});
  auto sent = pattern(64);
  std::vector<char> came(64);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(unexpected(1));
  // So long that its next sleep would not be taken for a new wait.
  ASSERT_TRUE(poll_until({b.get()}, [&] { return b->speaker->statistics().sleeps >= 40; }));
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_EQ(b->done.all.size(), 1u);
  uint64_t const before = b->speaker->statistics().sleeps;
  b->speaker->poll();
  EXPECT_EQ(b->speaker->statistics().sleeps, before);
}

TEST_F(two_engines, cut_what_is_too_long) {
  auto sent = pattern(100'000);
  std::vector<char> came(1000);
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(b->done.all[0].code, status::overflow);
  EXPECT_EQ(b->done.all[0].size, 1000u);
  EXPECT_EQ(b->done.all[0].lost, 99'000u);
}

TEST_F(two_engines, cancel_what_has_not_matched) {
  std::vector<char> came(8);
  int context = 0;
  ASSERT_EQ(receive(*b, came, 7, 0, &context), status::ok);
  EXPECT_EQ(b->speaker->cancel(&context), status::ok);
  ASSERT_EQ(b->done.all.size(), 1u);
  EXPECT_EQ(b->done.all[0].code, status::canceled);
  EXPECT_EQ(b->speaker->cancel(&context), status::no_entry);
}

TEST_F(two_engines, fill_a_buffer_for_many) {
  std::vector<char> buffer(100);
  iovec const part = part_of(buffer);
  ASSERT_EQ(b->speaker->post_receive({.parts = {&part, 1}, .many_size = 30}), status::ok);
  auto sent = pattern(25);
  iovec const piece = part_of(sent);
  for (int i = 0; i < 3; i++)
    ASSERT_EQ(a->speaker->post_send({.to = a->peer(*b), .parts = {&piece, 1}}), status::ok);
  ASSERT_TRUE(settle(3, 3));
  EXPECT_FALSE(b->done.all[0].buffer_done);
  EXPECT_FALSE(b->done.all[1].buffer_done);
  EXPECT_TRUE(b->done.all[2].buffer_done);
  EXPECT_EQ(b->done.all[2].buffer, reinterpret_cast<std::byte *>(buffer.data()) + 50);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), buffer.begin() + 50));
}

TEST_F(two_engines, peek_claim_and_discard) {
  auto sent = pattern(100);
  int context = 0;
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true}), status::ok);
  ASSERT_EQ(b->done.all.back().code, status::no_entry);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 8), status::ok);
  ASSERT_TRUE(unexpected(2));
  ASSERT_EQ(b->speaker->post_peek(
                {.pattern = {7, 0, any_peer}, .tagged = true, .claim = true, .context = &context}),
            status::ok);
  EXPECT_EQ(b->done.all.back().size, 100u);
  ASSERT_EQ(b->speaker->post_peek({.pattern = {8, 0, any_peer}, .tagged = true, .discard = true}),
            status::ok);
  EXPECT_EQ(b->done.all.back().code, status::ok);
  std::vector<char> came(100);
  iovec const part = part_of(came);
  ASSERT_EQ(
      b->speaker->post_receive_claimed({.parts = {&part, 1}, .tagged = true, .context = &context}),
      status::ok);
  EXPECT_EQ(came, sent);
  EXPECT_EQ(b->speaker->statistics().dump_size, 0u);
}

TEST_F(two_engines, end_at_the_hard_limit) {
  b = open({.dump_size_soft = 4096, .dump_size_hard = 8192});
  auto sent = pattern(200);
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  std::vector<char> came(8);
  ASSERT_EQ(receive(*b, came, 99), status::ok);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(until(
      [&] { return !b->done.all.empty() && a->speaker->statistics().connection_count == 0; }));
  std::string const lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(b->done.all[0].code, status::no_space);
  // Both sides say why, with numbers, and what to do.
  std::string const b_address = to_text(b->speaker->address());
  for (std::string const &line :
       {"the endpoint " + b_address + " ends: ", std::string{"TND_O2G_DUMP_HARD=8192. "},
        "are from " + to_text(a->speaker->address()),
        "the endpoint " + b_address + " ends: it keeps ",
        std::string{"its limit is 8192 bytes (TND_O2G_DUMP_HARD there)"},
        std::string{"or raise TND_O2G_DUMP_HARD"}})
    EXPECT_NE(lines.find(line), std::string::npos) << line << "\n" << lines;
  EXPECT_EQ(receive(*b, came, 99), status::no_space);
}

}  // namespace
}  // namespace tanada::o2g
