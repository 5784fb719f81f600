// Two engines in one process, over real sockets.

#include "o2g/engine.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "port/clock/clock.hpp"

namespace tanada::o2g {
namespace {

struct kept_completions final : completion_sink {
  void complete(const completion &what) override { all.push_back(what); }
  std::vector<completion> all;
};

struct endpoint {
  explicit endpoint(engine_options options = {}, bool sleeps = false) {
    options.at = result<port::socket_address>{port::socket_address_parse("127.0.0.1", 0)}.value();
    options.has_thread = false;
    if (!sleeps) options.sleep_ns_max = 0;  // one thread polls both
    auto set = port::stream_set_create({});
    auto made = engine::create(std::move(set).value(), options, done, memory);
    EXPECT_TRUE(made.ok());
    speaker = std::move(made).value();
  }
  peer_index peer(endpoint &other) { return result<peer_index>{speaker->peer_of(other.speaker->address())}.value(); }

  kept_completions done;
  regions memory;
  std::unique_ptr<engine> speaker;
};

iovec part_of(std::vector<char> &bytes) { return {bytes.data(), bytes.size()}; }

struct two_engines : testing::Test {
  void make(engine_options options = {}) {
    a = std::make_unique<endpoint>(options);
    b = std::make_unique<endpoint>(options);
  }
  void SetUp() override { make(); }

  // Until both have so many completions, or 5 s have passed.
  bool settle(size_t at_a, size_t at_b) {
    uint64_t const end_ns = port::monotonic_clock().now_ns() + 5'000'000'000;
    while (a->done.all.size() < at_a || b->done.all.size() < at_b) {
      if (port::monotonic_clock().now_ns() > end_ns) return false;
      a->speaker->poll();
      b->speaker->poll();
    }
    return a->done.all.size() == at_a && b->done.all.size() == at_b;
  }
  status send(endpoint &from, endpoint &to, std::vector<char> &bytes, uint64_t tag, bool delivered = false) {
    iovec const part = part_of(bytes);
    return from.speaker->post_send({.to = from.peer(to), .parts = {&part, 1}, .tag = tag, .tagged = true, .delivered = delivered});
  }
  status receive(endpoint &at, std::vector<char> &bytes, uint64_t tag, uint64_t ignore = 0, void *context = nullptr) {
    iovec const part = part_of(bytes);
    return at.speaker->post_receive(
        {.parts = {&part, 1}, .pattern = {tag, ignore, any_peer}, .tagged = true, .context = context});
  }

  std::unique_ptr<endpoint> a, b;
};

std::vector<char> pattern(size_t size, int seed) {
  std::vector<char> bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = char(i * 31 + size_t(seed) + (i >> 8));
  return bytes;
}

struct by_size : two_engines, testing::WithParamInterface<size_t> {};

TEST_P(by_size, comes_expected) {
  auto sent = pattern(GetParam(), 1);
  std::vector<char> came(GetParam());
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(b->done.all[0].code, status::ok);
  EXPECT_EQ(b->done.all[0].size, GetParam());
  EXPECT_EQ(b->done.all[0].tag, 7u);
  EXPECT_EQ(came, sent);
}

TEST_P(by_size, comes_unexpected) {
  auto sent = pattern(GetParam(), 2);
  std::vector<char> came(GetParam());
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 0));
  for (int i = 0; i < 1000; i++) b->speaker->poll();
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(came, sent);
}

TEST_P(by_size, is_taken_while_it_arrives) {
  auto sent = pattern(GetParam(), 3);
  std::vector<char> came(GetParam());
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  while (b->speaker->statistics().unexpected_count == 0) {
    a->speaker->poll();
    b->speaker->poll();
  }
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(came, sent);
  EXPECT_EQ(b->speaker->statistics().dump_size, 0u);
}

// Whoever sent it learns that it is not on its way any more.
TEST_P(by_size, is_discarded_while_it_arrives) {
  auto sent = pattern(GetParam(), 3);
  ASSERT_EQ(send(*a, *b, sent, 7, true), status::ok);
  while (b->speaker->statistics().unexpected_count == 0) {
    a->speaker->poll();
    b->speaker->poll();
  }
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true, .discard = true}), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(a->done.all[0].code, status::ok);
  EXPECT_EQ(b->done.all[0].size, GetParam());
  EXPECT_EQ(b->speaker->statistics().dump_size, 0u);
}

TEST_P(by_size, is_announced_when_there_is_no_room) {
  make({.dump_size_soft = 1024});
  auto sent = pattern(GetParam(), 4);
  std::vector<char> came(GetParam());
  ASSERT_EQ(send(*a, *b, sent, 7, true), status::ok);
  for (int i = 0; i < 1000; i++) {
    a->speaker->poll();
    b->speaker->poll();
  }
  EXPECT_EQ(a->done.all.size(), 0u);  // delivered means delivered
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(came, sent);
  EXPECT_EQ(a->speaker->statistics().announced_count, GetParam() > 1024 ? 1u : 0u);
}

TEST_P(by_size, is_said_to_oneself) {
  auto sent = pattern(GetParam(), 5);
  std::vector<char> came(GetParam());
  ASSERT_EQ(send(*a, *a, sent, 7, true), status::ok);
  ASSERT_EQ(receive(*a, came, 7), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(came, sent);
}

TEST_P(by_size, is_announced_to_oneself_when_there_is_no_room) {
  make({.dump_size_soft = 1024, .dump_size_hard = 1 << 20});
  auto sent = pattern(GetParam(), 4);
  std::vector<char> came(GetParam());
  ASSERT_EQ(send(*a, *a, sent, 7), status::ok);
  ASSERT_EQ(receive(*a, came, 7), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(a->done.all[0].code, status::ok);
  EXPECT_EQ(a->done.all[1].code, status::ok);
  EXPECT_EQ(came, sent);
}

// The dead are told apart from those who are merely silent, also after the fact.
TEST_F(two_engines, fail_a_receive_from_one_who_is_gone) {
  auto sent = pattern(64, 1);
  std::vector<char> came(64);
  ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  ASSERT_EQ(receive(*b, came, 1), status::ok);
  ASSERT_TRUE(settle(1, 1));
  peer_index const gone = a->peer(*b);
  b.reset();
  while (a->speaker->statistics().connection_count != 0) a->speaker->poll();
  iovec const part = part_of(came);
  ASSERT_EQ(a->speaker->post_receive({.parts = {&part, 1}, .pattern = {1, 0, gone}, .tagged = true}), status::ok);
  ASSERT_EQ(a->done.all.size(), 2u);
  EXPECT_EQ(a->done.all[1].code, status::peer_lost);
}

TEST_P(by_size, is_put_and_got) {
  auto sent = pattern(GetParam(), 6);
  std::vector<char> memory(GetParam() + 8), back(GetParam());
  auto *const addr = reinterpret_cast<std::byte *>(memory.data());
  ASSERT_EQ(b->memory.add(9, addr, memory.size(), 0, {true, true}), status::ok);
  iovec part = part_of(sent);
  ASSERT_EQ(a->speaker->post_put({.to = a->peer(*b), .parts = {&part, 1}, .remote = {8, GetParam(), 9}}), status::ok);
  ASSERT_TRUE(settle(1, 0));
  EXPECT_EQ(a->done.all[0].code, status::ok);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), memory.begin() + 8));
  part = part_of(back);
  ASSERT_EQ(a->speaker->post_get({.to = a->peer(*b), .parts = {&part, 1}, .remote = {8, GetParam(), 9}}), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(back, sent);
  EXPECT_EQ(b->memory.remove(9, 0), status::ok);
}

INSTANTIATE_TEST_SUITE_P(sizes, by_size, testing::Values(0, 1, 8, 47, 4096, 100'000, 5'000'000));

// A flood is gathered; what is larger than that, or not a message, comes behind it in order.
TEST_F(two_engines, keep_a_flood_in_order) {
  constexpr int count = 5000;
  std::vector<std::vector<char>> sent, came;
  for (int i = 0; i < count; i++) {
    size_t const size = i % 97 == 0 ? 3000 : size_t(i % 200);
    sent.push_back(pattern(size, i));
    came.emplace_back(size);
  }
  std::vector<char> first(8), warm(8);
  ASSERT_EQ(receive(*b, warm, 1), status::ok);
  ASSERT_EQ(send(*a, *b, first, 1), status::ok);
  ASSERT_TRUE(settle(1, 1));
  for (auto &each : sent) ASSERT_EQ(send(*a, *b, each, 7), status::ok);
  for (auto &each : came) ASSERT_EQ(receive(*b, each, 7), status::ok);
  ASSERT_TRUE(settle(1 + count, 1 + count));
  EXPECT_EQ(came, sent);
}

// Programs read on until nothing is left: after each completion, also one that a post brought about.
TEST_F(two_engines, do_not_sleep_right_after_a_completion) {
  b = std::make_unique<endpoint>(engine_options{}, true);
  auto sent = pattern(64, 1);
  std::vector<char> came(64);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  while (b->speaker->statistics().unexpected_count == 0) {
    a->speaker->poll();
    b->speaker->poll();
  }
  while (b->speaker->statistics().sleeps < 40) b->speaker->poll();  // so long that its next sleep would not be taken for a new wait
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_EQ(b->done.all.size(), 1u);
  uint64_t const before = b->speaker->statistics().sleeps;
  b->speaker->poll();
  EXPECT_EQ(b->speaker->statistics().sleeps, before);
}

TEST_F(two_engines, cut_what_is_too_long) {
  auto sent = pattern(100'000, 7);
  std::vector<char> came(1000);
  ASSERT_EQ(receive(*b, came, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(b->done.all[0].code, status::overflow);
  EXPECT_EQ(b->done.all[0].size, 1000u);
  EXPECT_EQ(b->done.all[0].lost, 99'000u);
}

TEST_F(two_engines, keep_order_under_wildcards) {
  std::vector<std::vector<char>> sent, came(100, std::vector<char>(4));
  for (int i = 0; i < 100; i++) sent.push_back(pattern(4, i));
  for (int i = 0; i < 50; i++) ASSERT_EQ(receive(*b, came[size_t(i)], 0, ~uint64_t{0}), status::ok);
  for (int i = 0; i < 100; i++) ASSERT_EQ(send(*a, *b, sent[size_t(i)], uint64_t(i)), status::ok);
  for (int i = 50; i < 100; i++) ASSERT_EQ(receive(*b, came[size_t(i)], 0, ~uint64_t{0}), status::ok);
  ASSERT_TRUE(settle(100, 100));
  EXPECT_EQ(came, sent);
}

TEST_F(two_engines, both_connect_at_a_time) {
  for (int round = 0; round < 20; round++) {
    make();
    auto sent = pattern(64, round);
    std::vector<char> at_a(64), at_b(64);
    ASSERT_EQ(receive(*a, at_a, 1), status::ok);
    ASSERT_EQ(receive(*b, at_b, 1), status::ok);
    ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
    ASSERT_EQ(send(*b, *a, sent, 1), status::ok);
    ASSERT_TRUE(settle(2, 2)) << round;
    EXPECT_EQ(at_a, sent);
    EXPECT_EQ(at_b, sent);
  }
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
  auto sent = pattern(25, 8);
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
  auto sent = pattern(100, 9);
  int context = 0;
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true}), status::ok);
  ASSERT_EQ(b->done.all.back().code, status::no_entry);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 8), status::ok);
  while (b->speaker->statistics().unexpected_count < 2) {
    a->speaker->poll();
    b->speaker->poll();
  }
  ASSERT_EQ(b->speaker->post_peek({.pattern = {7, 0, any_peer}, .tagged = true, .claim = true, .context = &context}), status::ok);
  EXPECT_EQ(b->done.all.back().size, 100u);
  ASSERT_EQ(b->speaker->post_peek({.pattern = {8, 0, any_peer}, .tagged = true, .discard = true}), status::ok);
  EXPECT_EQ(b->done.all.back().code, status::ok);
  std::vector<char> came(100);
  iovec const part = part_of(came);
  ASSERT_EQ(b->speaker->post_receive_claimed({.parts = {&part, 1}, .tagged = true, .context = &context}), status::ok);
  EXPECT_EQ(came, sent);
  EXPECT_EQ(b->speaker->statistics().dump_size, 0u);
}

TEST_F(two_engines, add_where_the_memory_is) {
  uint64_t target = 5, operand = 37, before = 0;
  ASSERT_EQ(b->memory.add(3, reinterpret_cast<std::byte *>(&target), 8, 0, {true, true}), status::ok);
  ASSERT_EQ(a->speaker->post_atomic({.to = a->peer(*b),
                                     .operands = std::as_bytes(std::span{&operand, 1}),
                                     .fetched = std::as_writable_bytes(std::span{&before, 1}),
                                     .remote = {0, 8, 3}}),
            status::ok);
  ASSERT_TRUE(settle(1, 0));
  EXPECT_EQ(a->done.all[0].code, status::ok);
  EXPECT_EQ(before, 5u);
  EXPECT_EQ(target, 42u);
}

TEST_F(two_engines, hear_of_what_is_done_to_their_memory) {
  b = std::make_unique<endpoint>(engine_options{.hears_remote = true});
  uint64_t target = 5, operand = 37, before = 0;
  ASSERT_EQ(b->memory.add(3, reinterpret_cast<std::byte *>(&target), 8, 0, {true, true}), status::ok);
  iovec const part{&operand, 8}, back{&before, 8};
  auto const post = [&](auto &&how, size_t count) {
    ASSERT_EQ(how(), status::ok);
    ASSERT_TRUE(settle(count, count));
    EXPECT_EQ(b->done.all.back().tag, 3u);
    EXPECT_EQ(b->done.all.back().size, 8u);
  };
  post([&] { return a->speaker->post_put({.to = a->peer(*b), .parts = {&part, 1}, .remote = {0, 8, 3}}); }, 1);
  EXPECT_EQ(b->done.all.back().kind, completion_kind::remote_put);
  EXPECT_EQ(target, 37u);  // it was told when it was there
  post([&] { return a->speaker->post_get({.to = a->peer(*b), .parts = {&back, 1}, .remote = {0, 8, 3}}); }, 2);
  EXPECT_EQ(b->done.all.back().kind, completion_kind::remote_get);
  post([&] {
    return a->speaker->post_atomic({.to = a->peer(*b), .operands = std::as_bytes(std::span{&operand, 1}), .remote = {0, 8, 3}});
  }, 3);
  EXPECT_EQ(b->done.all.back().kind, completion_kind::remote_put);
  // What was refused is not heard of.
  ASSERT_EQ(a->speaker->post_put({.to = a->peer(*b), .parts = {&part, 1}, .remote = {1, 8, 3}}), status::ok);
  EXPECT_TRUE(settle(4, 3));
}

TEST_F(two_engines, refuse_memory_that_was_not_offered) {
  auto sent = pattern(64, 1);
  iovec const part = part_of(sent);
  std::vector<char> memory(64);
  ASSERT_EQ(b->memory.add(3, reinterpret_cast<std::byte *>(memory.data()), 64, 0, {true, false}), status::ok);
  auto const put = [&](remote_range where) {
    size_t const before = a->done.all.size();
    EXPECT_EQ(a->speaker->post_put({.to = a->peer(*b), .parts = {&part, 1}, .remote = where}), status::ok);
    EXPECT_TRUE(settle(before + 1, 0));
    return a->done.all.back().code;
  };
  EXPECT_EQ(put({0, 64, 3}), status::access);
  EXPECT_EQ(put({1, 64, 3}), status::fault);
  EXPECT_EQ(put({~uint64_t{0} - 31, 64, 3}), status::fault);
  EXPECT_EQ(put({0, 64, 4}), status::no_entry);
}

TEST_F(two_engines, refuse_another_job) {
  a = std::make_unique<endpoint>(engine_options{.cookie = "one"});
  b = std::make_unique<endpoint>(engine_options{.cookie = "two"});
  auto sent = pattern(64, 1);
  ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  ASSERT_TRUE(settle(1, 0));
  EXPECT_EQ(a->done.all[0].code, status::access);
}

// TCP answers unread bytes at a close with a reset, which takes along what the other side has not read yet.
TEST_F(two_engines, see_off_what_they_sent_when_they_end) {
  auto large = pattern(3'000'000, 1), small = pattern(100, 2);
  std::vector<char> warm(100), came(large.size());
  ASSERT_EQ(receive(*b, warm, 1), status::ok);
  ASSERT_EQ(send(*a, *b, small, 1), status::ok);
  ASSERT_TRUE(settle(1, 1));
  ASSERT_EQ(send(*b, *a, small, 2), status::ok);  // a never reads it
  ASSERT_EQ(send(*a, *b, large, 3), status::ok);
  constexpr int flood = 200;
  iovec const part = part_of(small);
  for (int i = 0; i < flood; i++)
    ASSERT_EQ(a->speaker->post_send({.to = a->peer(*b), .parts = {&part, 1}, .tag = 4, .tagged = true, .inject = true}), status::ok);
  while (a->done.all.size() < 1 + flood) a->speaker->poll(), b->speaker->poll();
  std::thread ends{[&] { a.reset(); }};
  ASSERT_EQ(receive(*b, came, 3), status::ok);
  std::vector<std::vector<char>> many(flood, std::vector<char>(100));
  for (auto &each : many) ASSERT_EQ(receive(*b, each, 4), status::ok);
  uint64_t const end_ns = port::monotonic_clock().now_ns() + 5'000'000'000;
  while (b->done.all.size() < 3 + flood && port::monotonic_clock().now_ns() < end_ns) b->speaker->poll();
  ends.join();
  ASSERT_EQ(b->done.all.size(), size_t(3 + flood));
  for (completion const &each : b->done.all) EXPECT_EQ(each.code, status::ok);
  EXPECT_EQ(came, large);
}

TEST_F(two_engines, tell_of_a_peer_that_is_gone) {
  auto sent = pattern(64, 1);
  std::vector<char> came(64);
  ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  ASSERT_EQ(receive(*b, came, 1), status::ok);
  ASSERT_TRUE(settle(1, 1));
  peer_index const gone = a->peer(*b);
  b.reset();
  iovec const part = part_of(sent);
  uint64_t const end_ns = port::monotonic_clock().now_ns() + 5'000'000'000;
  status code = status::ok;
  while (code == status::ok && port::monotonic_clock().now_ns() < end_ns) {
    code = a->speaker->post_send({.to = gone, .parts = {&part, 1}});
    a->speaker->poll();
  }
  EXPECT_EQ(code, status::peer_lost);
}

TEST_F(two_engines, end_at_the_hard_limit) {
  b = std::make_unique<endpoint>(engine_options{.dump_size_soft = 4096, .dump_size_hard = 8192});
  auto sent = pattern(200, 1);
  for (int i = 0; i < 100; i++) ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  std::vector<char> came(8);
  ASSERT_EQ(receive(*b, came, 99), status::ok);
  while (b->done.all.empty()) {
    a->speaker->poll();
    b->speaker->poll();
  }
  EXPECT_EQ(b->done.all[0].code, status::no_space);
  EXPECT_EQ(receive(*b, came, 99), status::no_space);
}

}  // namespace
}  // namespace tanada::o2g
