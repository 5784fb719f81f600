// How two engines connect, and what happens when one of them ends.

#include <thread>

#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {
namespace {

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

TEST_F(two_engines, refuse_another_job) {
  a = open({.cookie = "one"});
  b = open({.cookie = "two"});
  auto sent = pattern(64);
  ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  ASSERT_TRUE(settle(1, 0));
  EXPECT_EQ(a->done.events[0].code, status::access);
}

// If a socket with unread bytes is closed, TCP sends a reset, and the other side loses the bytes
// that it has not read yet.
TEST_F(two_engines, see_off_what_they_sent_when_they_end) {
  auto large = pattern(3'000'000, 1), small = pattern(100, 2);
  std::vector<char> received(large.size());
  ASSERT_NO_FATAL_FAILURE(exchange_first());
  ASSERT_EQ(send(*b, *a, small, 2), status::ok);  // a never reads it
  ASSERT_EQ(send(*a, *b, large, 3), status::ok);
  constexpr int flood = 200;
  iovec const part = part_of(small);
  for (int i = 0; i < flood; i++)
    ASSERT_EQ(
        a->speaker->post_send(
            {.target = a->peer(*b), .parts = {&part, 1}, .tag = 4, .tagged = true, .inject = true}),
        status::ok);
  ASSERT_TRUE(until([&] { return a->done.events.size() >= 1 + flood; }));
  std::thread ends{[&] {
    a.reset();
  }};
  ASSERT_EQ(receive(*b, received, 3), status::ok);
  std::vector<std::vector<char>> many(flood, std::vector<char>(100));
  for (auto &buffer : many)
    ASSERT_EQ(receive(*b, buffer, 4), status::ok);
  EXPECT_TRUE(poll_until({b.get()}, [&] { return b->done.events.size() >= 3 + flood; }));
  ends.join();
  ASSERT_EQ(b->done.events.size(), size_t(3 + flood));
  for (completion const &event : b->done.events)
    EXPECT_EQ(event.code, status::ok);
  EXPECT_EQ(received, large);
}

struct one_who_is_gone : two_engines {
  void SetUp() override {
    two_engines::SetUp();
    ASSERT_NO_FATAL_FAILURE(exchange_first());
    failed_peer = a->peer(*b);
    b.reset();
  }
  peer_index failed_peer = 0;
};

TEST_F(one_who_is_gone, is_told_of) {
  auto sent = pattern(64);
  iovec const part = part_of(sent);
  status code = status::ok;
  EXPECT_TRUE(poll_until({a.get()}, [&] {
    code = a->speaker->post_send({.target = failed_peer, .parts = {&part, 1}});
    return code != status::ok;
  }));
  EXPECT_EQ(code, status::peer_lost);
}

// A failed peer differs from one that only sends nothing: a receive posted later fails, too.
TEST_F(one_who_is_gone, fails_a_receive) {
  ASSERT_TRUE(
      poll_until({a.get()}, [&] { return a->speaker->statistics().connection_count == 0; }));
  std::vector<char> received(64);
  iovec const part = part_of(received);
  ASSERT_EQ(a->speaker->post_receive(
                {.parts = {&part, 1}, .pattern = {1, 0, failed_peer}, .tagged = true}),
            status::ok);
  ASSERT_EQ(a->done.events.size(), 2u);
  EXPECT_EQ(a->done.events[1].code, status::peer_lost);
}

}  // namespace
}  // namespace tanada::o2g
