// The engine with a message driver: the one in the process, or that of the environment.
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>

#include "core/wire/o2g.hpp"
#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {

namespace {

struct driven_engines : two_engines {
  void SetUp() override {
    auto const set = seams::stream_set_create({});
    if (!set.ok() || set.value()->watch_also(-1) == status::not_supported)
      GTEST_SKIP() << "the connections are driven by a set that lends no sockets";
    has_own_setting = std::getenv("O2G_TEST_DRIVER") == nullptr;
    if (has_own_setting)
      setenv("O2G_TEST_DRIVER", "process", 1);
    make();
    exchange_first();
    clear();
    ASSERT_EQ(b->speaker->statistics().driver_connection_count, 1u);
  }
  void TearDown() override {
    a.reset();
    b.reset();
    if (has_own_setting)
      unsetenv("O2G_TEST_DRIVER");
  }
  void clear() const {
    a->done.events.clear();
    b->done.events.clear();
  }
  uint64_t driver_count() const {
    return b->speaker->statistics().driver_received_count;
  }

  bool has_own_setting = false;
};

TEST_F(driven_engines, store_a_message_that_a_receive_expects) {
  uint64_t const before = driver_count();
  std::vector<char> const expected = pattern(3000);
  std::vector<char> sent = expected, received(3000);
  ASSERT_EQ(receive(*b, received, 7), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 7), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(received, expected);
  EXPECT_EQ(driver_count(), before + 1);
  completion const &done = b->done.events[0];
  EXPECT_EQ(done.code, status::ok);
  EXPECT_EQ(done.size, 3000u);
  EXPECT_EQ(done.tag, 7u);
  EXPECT_TRUE(done.tagged);
  EXPECT_EQ(done.source, b->peer(*a));
}

TEST_F(driven_engines, truncate_a_message_and_go_on) {
  std::vector<char> sent = pattern(100'000), small(10), next(100'000);
  ASSERT_EQ(receive(*b, small, 1), status::ok);
  ASSERT_EQ(receive(*b, next, 2), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 1), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 2), status::ok);
  ASSERT_TRUE(settle(2, 2));
  EXPECT_EQ(b->done.events[0].code, status::overflow);
  EXPECT_EQ(b->done.events[0].size, 10u);
  EXPECT_EQ(b->done.events[0].truncated_size, 99'990u);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), sent.begin()));
  EXPECT_EQ(next, sent);
}

TEST_F(driven_engines, report_delivery_and_data) {
  std::vector<char> sent = pattern(8), received(8);
  ASSERT_EQ(receive(*b, received, 5), status::ok);
  iovec const part = part_of(sent);
  ASSERT_EQ(a->speaker->post_send({.target = a->peer(*b),
                                   .parts = {&part, 1},
                                   .tag = 5,
                                   .data = 0x1234'5678'9ABC'DEF0,
                                   .tagged = true,
                                   .has_data = true,
                                   .delivery_complete = true}),
            status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(a->done.events[0].code, status::ok);
  EXPECT_TRUE(b->done.events[0].has_data);
  EXPECT_EQ(b->done.events[0].data, 0x1234'5678'9ABC'DEF0u);
}

// The first message is announced, so the engine receives it; the driver could store the second one
// at once, but the first receive is not for it.
TEST_F(driven_engines, keep_the_order_of_announced_and_eager_messages) {
  make({.unexpected_size_soft = 0});
  exchange_first();
  clear();
  std::vector<char> large = pattern(50'000, 1), small = pattern(100, 2);
  std::vector<char> first(50'000), second(50'000);
  ASSERT_EQ(receive(*b, first, 3), status::ok);
  ASSERT_EQ(receive(*b, second, 3), status::ok);
  ASSERT_EQ(send(*a, *b, large, 3), status::ok);
  ASSERT_EQ(send(*a, *b, small, 3), status::ok);
  ASSERT_TRUE(settle(2, 2));
  EXPECT_EQ(first, large);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), second.begin()));
}

TEST_F(driven_engines, keep_the_order_of_receives_that_the_driver_cannot_store) {
  std::vector<char> sent_first = pattern(20, 1), sent_second = pattern(20, 2);
  std::array<std::vector<char>, 2> halves{std::vector<char>(5), std::vector<char>(15)};
  std::array<iovec, 2> const parts{part_of(halves[0]), part_of(halves[1])};
  std::vector<char> whole(20);
  ASSERT_EQ(b->speaker->post_receive({.parts = parts, .pattern = {9, 0, any_peer}, .tagged = true}),
            status::ok);
  ASSERT_EQ(receive(*b, whole, 9), status::ok);
  ASSERT_EQ(send(*a, *b, sent_first, 9), status::ok);
  ASSERT_EQ(send(*a, *b, sent_second, 9), status::ok);
  ASSERT_TRUE(settle(2, 2));
  std::vector<char> joined = halves[0];
  joined.insert(joined.end(), halves[1].begin(), halves[1].end());
  EXPECT_EQ(joined, sent_first);
  EXPECT_EQ(whole, sent_second);
}

TEST_F(driven_engines, match_messages_to_oneself_before_those_of_a_peer) {
  std::vector<char> own = pattern(30, 1), foreign = pattern(30, 2), first(30), second(30);
  ASSERT_EQ(receive(*b, first, 4), status::ok);
  ASSERT_EQ(receive(*b, second, 4), status::ok);
  ASSERT_EQ(send(*b, *b, own, 4), status::ok);
  ASSERT_EQ(send(*a, *b, foreign, 4), status::ok);
  ASSERT_TRUE(settle(1, 3));
  EXPECT_EQ(first, own);
  EXPECT_EQ(second, foreign);
}

TEST_F(driven_engines, cancel_a_receive_and_give_its_message_to_the_next) {
  std::vector<char> sent = pattern(64), canceled(64), received(64);
  int context = 0;
  ASSERT_EQ(receive(*b, canceled, 6, 0, &context), status::ok);
  ASSERT_EQ(b->speaker->cancel(&context), status::ok);
  ASSERT_EQ(send(*a, *b, sent, 6), status::ok);
  ASSERT_TRUE(wait_unexpected(1));
  ASSERT_EQ(receive(*b, received, 6), status::ok);
  ASSERT_TRUE(settle(1, 2));
  EXPECT_EQ(b->done.events[0].code, status::canceled);
  EXPECT_EQ(received, sent);
}

TEST_F(driven_engines, mix_frames_of_all_kinds_in_order) {
  constexpr size_t round_count = 200;
  std::vector<std::vector<char>> received(round_count, std::vector<char>(300));
  std::vector<std::vector<char>> sent;
  for (size_t i = 0; i < round_count; i++)
    sent.push_back(pattern(300, int(i)));
  std::vector<char> untagged(8), sink(8);
  for (size_t i = 0; i < round_count; i++) {
    if (i % 3 != 0) {
      ASSERT_EQ(receive(*b, received[i], i), status::ok);
    }
    iovec const part = part_of(untagged);
    if (i % 5 == 0) {
      iovec const target = part_of(sink);
      ASSERT_EQ(b->speaker->post_receive({.parts = {&target, 1}}), status::ok);
      ASSERT_EQ(a->speaker->post_send({.target = a->peer(*b), .parts = {&part, 1}}), status::ok);
    }
    ASSERT_EQ(send(*a, *b, sent[i], i), status::ok);
    if (i % 3 == 0) {
      ASSERT_EQ(receive(*b, received[i], i), status::ok);
    }
  }
  ASSERT_TRUE(settle(round_count + round_count / 5, round_count + round_count / 5));
  EXPECT_EQ(received, sent);
}

TEST_F(driven_engines, fail_receives_of_a_peer_that_ends) {
  std::vector<char> received(100), other(100);
  iovec const part = part_of(received);
  peer_index const source = b->peer(*a);
  ASSERT_EQ(
      b->speaker->post_receive({.parts = {&part, 1}, .pattern = {1, 0, source}, .tagged = true}),
      status::ok);
  ASSERT_EQ(receive(*b, other, 2), status::ok);
  std::vector<char> sent = pattern(100);
  ASSERT_EQ(send(*a, *b, sent, 2), status::ok);
  ASSERT_TRUE(settle(1, 1));
  EXPECT_EQ(other, sent);
  a.reset();
  ASSERT_TRUE(
      poll_until({b.get()}, [&] { return b->speaker->statistics().driver_connection_count == 0; }));
}

// What the driver must know of the envelopes.
TEST(message_driver_envelopes, agree_with_the_protocol) {
  for (unsigned kind = 0; kind < 256; kind++) {
    for (uint64_t const size : {uint64_t{0}, uint64_t{100}}) {
      wire::o2g::envelope head;
      head.kind = uint8_t(kind);
      head.flags = wire::o2g::tagged;
      head.size = size;
      o2g_envelope decoded{};
      static_assert(sizeof decoded == sizeof head);
      std::memcpy(&decoded, &head, sizeof decoded);
      bool const has_size = kind >= 13 && size != 0;  // these have no body: the engine rejects it
      if (!has_size) {
        EXPECT_EQ(o2g_envelope_is_valid(&decoded), wire::o2g::envelope_check(head) == status::ok)
            << kind;
      }
      if (o2g_envelope_is_valid(&decoded)) {
        EXPECT_EQ(o2g_envelope_following_size(&decoded), wire::o2g::following_size(head)) << kind;
      }
      EXPECT_EQ(o2g_envelope_is_message(&decoded), kind == unsigned(wire::o2g::kind::message));
    }
  }
}

// Receivers with a progress thread, and the module: the driver in the process receives only in
// calls.
struct sleeping_receivers : driven_engines {
  static constexpr size_t message_count = 100;

  void SetUp() override {
    char const *const setting = std::getenv("O2G_TEST_DRIVER");
    if (setting == nullptr || *setting != '/')
      GTEST_SKIP() << "O2G_TEST_DRIVER names no device";
    int pin_limit = 0;
    std::ifstream{"/sys/module/o2g/parameters/pin_limit"} >> pin_limit;
    if (pin_limit == 0)
      GTEST_SKIP() << "the driver pins nothing, so calls of the process receive";
    driven_engines::SetUp();
    b.reset();
    b = std::make_unique<kept_endpoint>(engine_options{.has_thread = true});
    exchange_first();
    clear();
    // The program calls no more, so the thread takes over, and sleeps.
    ASSERT_TRUE(poll_until({a.get()}, [&] { return thread_count() > 1; }));
  }
  uint64_t thread_count() const {
    return b->speaker->statistics().thread_drive_count;
  }
  void post_receives() {
    for (auto &each : received) {
      each.assign(64, 0);
      ASSERT_EQ(receive(*b, each, 5), status::ok);
    }
  }
  // Whether the last byte of the receive was stored.
  bool has_arrived(size_t index) {
    return std::atomic_ref{received[index].back()}.load() != 0;
  }

  std::vector<char> sent = std::vector<char>(64, 'x');
  std::array<std::vector<char>, message_count> received;
};

TEST_F(sleeping_receivers, are_not_woken_for_what_the_driver_stores) {
  post_receives();
  uint64_t const before = thread_count();
  for (size_t i = 0; i < message_count; i++) {
    ASSERT_EQ(send(*a, *b, sent, 5), status::ok);
    ASSERT_TRUE(poll_until({a.get()}, [&] { return has_arrived(i); }));
  }
  EXPECT_LT(thread_count() - before, message_count / 10);
  ASSERT_TRUE(settle(message_count, message_count));
}

TEST_F(sleeping_receivers, are_woken_for_acknowledgements) {
  post_receives();
  ASSERT_EQ(send(*a, *b, sent, 5, true), status::ok);
  EXPECT_TRUE(poll_until({a.get()}, [&] { return a->done.events.size() == 1; }));
}

TEST_F(sleeping_receivers, receive_more_than_their_credit) {
  make({.unexpected_size_soft = 64 << 10});
  b = std::make_unique<kept_endpoint>(
      engine_options{.unexpected_size_soft = 64 << 10, .has_thread = true});
  exchange_first();
  clear();
  std::vector<char> large(4096, 'x');
  for (auto &each : received) {
    each.assign(4096, 0);
    ASSERT_EQ(receive(*b, each, 6), status::ok);
  }
  for (size_t i = 0; i < message_count; i++)
    ASSERT_EQ(send(*a, *b, large, 6), status::ok);
  EXPECT_TRUE(poll_until({a.get()}, [&] { return has_arrived(message_count - 1); }));
}

}  // namespace

}  // namespace tanada::o2g
