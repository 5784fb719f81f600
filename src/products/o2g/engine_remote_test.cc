// One-sided operations: one engine accesses memory that the other has registered.

#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {
namespace {

// b registers memory, and a accesses it.
struct remote_memory : two_engines {
  status offer(void *memory, size_t size, region_access access = {true, true}) {
    return b->memory.add(3, static_cast<std::byte *>(memory), size, 0, access);
  }
  status put(iovec part, remote_range where) {
    return a->speaker->post_put({.target = a->peer(*b), .parts = {&part, 1}, .remote = where});
  }
  status get(iovec part, remote_range where) {
    return a->speaker->post_get({.target = a->peer(*b), .parts = {&part, 1}, .remote = where});
  }
  status add(const uint64_t &operand, std::span<std::byte> fetched, remote_range where) {
    return a->speaker->post_atomic({.target = a->peer(*b),
                                    .operands = std::as_bytes(std::span{&operand, 1}),
                                    .fetched = fetched,
                                    .remote = where});
  }
};

struct remote_memory_by_size : remote_memory, testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(sizes, remote_memory_by_size, sizes());

TEST_P(remote_memory_by_size, is_put_and_got) {
  size_t const size = GetParam();
  std::vector<char> sent = pattern(size), memory(size + 8), back(size);
  ASSERT_EQ(offer(memory.data(), memory.size()), status::ok);
  ASSERT_EQ(put(part_of(sent), {8, size, 3}), status::ok);
  ASSERT_TRUE(settle(1, 0));
  EXPECT_EQ(a->done.events[0].code, status::ok);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), memory.begin() + 8));
  ASSERT_EQ(get(part_of(back), {8, size, 3}), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(back, sent);
  EXPECT_EQ(b->memory.remove(3, 0), status::ok);
}

TEST_F(remote_memory, is_added_to_where_it_is) {
  uint64_t target = 5, operand = 37, before = 0;
  ASSERT_EQ(offer(&target, 8), status::ok);
  ASSERT_EQ(add(operand, std::as_writable_bytes(std::span{&before, 1}), {0, 8, 3}), status::ok);
  ASSERT_TRUE(settle(1, 0));
  EXPECT_EQ(a->done.events[0].code, status::ok);
  EXPECT_EQ(before, 5u);
  EXPECT_EQ(target, 42u);
}

// The ACK is sent with the next message to the peer, or after a delay.
TEST_F(remote_memory, that_nobody_waits_for_is_acknowledged_late) {
  uint64_t target = 5, back = 0;
  uint64_t const operand = 37;
  ASSERT_EQ(offer(&target, 8), status::ok);
  auto const add_patiently = [&] {
    return a->speaker->post_atomic({.target = a->peer(*b),
                                    .operands = std::as_bytes(std::span{&operand, 1}),
                                    .remote = {0, 8, 3},
                                    .can_delay_ack = true});
  };
  ASSERT_EQ(add_patiently(), status::ok);
  ASSERT_TRUE(until([&] { return target == 42; }));
  EXPECT_TRUE(a->done.events.empty());
  ASSERT_EQ(get({&back, 8}, {0, 8, 3}), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(a->done.events[0].kind, completion_kind::atomic);
  EXPECT_EQ(a->done.events[1].kind, completion_kind::get);
  EXPECT_EQ(back, 42u);
  for (size_t i = 0; i < 100; i++)
    ASSERT_EQ(add_patiently(), status::ok);  // more than can be delayed at a time
  ASSERT_TRUE(settle(102, 0));
  EXPECT_EQ(target, 42 + 100 * operand);
}

struct manual_clock final : seams::clock {
  uint64_t now_ns() noexcept override {
    return time_ns;
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    time_ns += duration_ns;
  }
  uint64_t time_ns = 1'000'000'000;
};

// Otherwise each ACK would be a message of its own, which wakes a peer that also sleeps.
TEST_F(remote_memory, that_nobody_waits_for_is_acknowledged_late_by_a_sleeper) {
  manual_clock time;
  b = open({.clock = &time});
  uint64_t target = 5;
  uint64_t const operand = 37;
  ASSERT_EQ(offer(&target, 8), status::ok);
  ASSERT_EQ(a->speaker->post_atomic({.target = a->peer(*b),
                                     .operands = std::as_bytes(std::span{&operand, 1}),
                                     .remote = {0, 8, 3},
                                     .can_delay_ack = true}),
            status::ok);
  ASSERT_TRUE(until([&] { return target == 42; }));
  auto const is_ready = [](void *) {
    return true;
  };
  auto const fall_asleep = [&] {
    ASSERT_EQ(b->speaker->wait(UINT64_MAX, is_ready, nullptr), status::ok);
  };
  fall_asleep();
  for (size_t i = 0; i < 1000; i++)
    a->speaker->poll();
  EXPECT_TRUE(a->done.events.empty());
  time.time_ns += 2'000'000;
  fall_asleep();
  ASSERT_TRUE(poll_until({a.get()}, [&] { return !a->done.events.empty(); }));
  EXPECT_EQ(a->done.events[0].kind, completion_kind::atomic);
  b.reset();  // before its clock
}

// A put without delivery completion ends when its source may be reused. The completion of the next
// request shows that it has been applied.
TEST_F(remote_memory, is_put_without_an_answer) {
  uint64_t target[2] = {};
  uint64_t const value = 7, operand = 1;
  ASSERT_EQ(offer(target, sizeof target), status::ok);
  iovec const part{const_cast<uint64_t *>(&value), 8};
  ASSERT_EQ(a->speaker->post_put({.target = a->peer(*b),
                                  .parts = {&part, 1},
                                  .remote = {0, 8, 3},
                                  .delivery_complete = false,
                                  .more = true}),
            status::ok);
  ASSERT_EQ(add(operand, {}, {8, 8, 3}), status::ok);
  ASSERT_TRUE(settle(2, 0));
  EXPECT_EQ(a->done.events[0].kind, completion_kind::put);
  EXPECT_EQ(target[0], 7u);
  EXPECT_EQ(target[1], 1u);
}

TEST_F(remote_memory, tells_its_owner_what_is_done_to_it) {
  b = open({.reports_remote = true});
  uint64_t target = 5, operand = 37, before = 0;
  ASSERT_EQ(offer(&target, 8), status::ok);
  auto const done = [&](status posted, size_t count, completion_kind kind) {
    ASSERT_EQ(posted, status::ok);
    ASSERT_TRUE(settle(count, count));
    EXPECT_EQ(b->done.events.back().kind, kind);
    EXPECT_EQ(b->done.events.back().tag, 3u);
    EXPECT_EQ(b->done.events.back().size, 8u);
  };
  done(put({&operand, 8}, {0, 8, 3}), 1, completion_kind::remote_put);
  EXPECT_EQ(target, 37u);  // reported only after it was applied
  done(get({&before, 8}, {0, 8, 3}), 2, completion_kind::remote_get);
  done(add(operand, {}, {0, 8, 3}), 3, completion_kind::remote_put);
  // A refused access is not reported.
  ASSERT_EQ(put({&operand, 8}, {1, 8, 3}), status::ok);
  EXPECT_TRUE(settle(4, 3));
}

// The requests of a burst are carried out in their order, also with large requests and messages in
// between.
TEST_F(remote_memory, keeps_a_burst_in_order) {
  constexpr size_t count = 2'000;
  std::vector<char> large = pattern(20'000), received(count);
  std::vector<uint64_t> memory(4'000, 0), words(count), fetched(count), got(count),
      expected_fetched, expected_got;
  ASSERT_EQ(offer(memory.data(), memory.size() * 8), status::ok);
  ASSERT_NO_FATAL_FAILURE(exchange_first());
  uint64_t expected = 0;
  size_t messages = 0;
  for (size_t i = 0; i < count; i++) {
    switch (i % 7) {
      case 0:
      case 4:
        expected = 10 * i;
        words[i] = 10 * i;
        ASSERT_EQ(put({&words[i], 8}, {0, 8, 3}), status::ok);
        break;
      case 1:
        expected_fetched.push_back(expected);
        words[i] = i;
        expected += i;
        ASSERT_EQ(add(words[i],
                      std::as_writable_bytes(std::span{&fetched[expected_fetched.size() - 1], 1}),
                      {0, 8, 3}),
                  status::ok);
        break;
      case 2:
        if (i % 3 == 0)
          ASSERT_EQ(put(part_of(large), {800, large.size(), 3}), status::ok);
        else
          ASSERT_EQ(put({large.data(), 100}, {800, 100, 3}), status::ok);
        break;
      case 3:
        words[i] = 1;
        expected++;
        ASSERT_EQ(add(words[i], {}, {0, 8, 3}), status::ok);
        break;
      case 5:
        expected_got.push_back(expected);
        ASSERT_EQ(get({&got[expected_got.size() - 1], 8}, {0, 8, 3}), status::ok);
        break;
      default: {
        iovec const part{&received[i], 1}, source{large.data() + i, 1};
        ASSERT_EQ(b->speaker->post_receive({.parts = {&part, 1}}), status::ok);
        ASSERT_EQ(a->speaker->post_send({.target = a->peer(*b), .parts = {&source, 1}}),
                  status::ok);
        messages++;
      }
    }
  }
  ASSERT_TRUE(settle(1 + count, 1 + messages));
  for (auto const &event : a->done.events)
    ASSERT_EQ(event.code, status::ok);
  EXPECT_EQ(memory[0], expected);
  fetched.resize(expected_fetched.size());
  EXPECT_EQ(fetched, expected_fetched);
  got.resize(expected_got.size());
  EXPECT_EQ(got, expected_got);
  for (size_t i = 6; i < count; i += 7)
    ASSERT_EQ(received[i], large[i]);
}

TEST_F(remote_memory, is_refused_when_it_was_not_offered) {
  std::vector<char> sent = pattern(64), memory(64);
  ASSERT_EQ(offer(memory.data(), 64, {true, false}), status::ok);
  auto const code_of_put = [&](remote_range where) {
    size_t const before = a->done.events.size();
    EXPECT_EQ(put(part_of(sent), where), status::ok);
    EXPECT_TRUE(settle(before + 1, 0));
    return a->done.events.back().code;
  };
  EXPECT_EQ(code_of_put({0, 64, 3}), status::access);
  EXPECT_EQ(code_of_put({1, 64, 3}), status::fault);
  EXPECT_EQ(code_of_put({~uint64_t{0} - 31, 64, 3}), status::fault);
  EXPECT_EQ(code_of_put({0, 64, 4}), status::no_entry);
}

}  // namespace
}  // namespace tanada::o2g
