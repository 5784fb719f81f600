// Engines with progress threads, and callers on several threads.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "products/o2g/engine_fixture.hpp"
#include "products/o2g/handover_lock.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g {
namespace {

using namespace std::chrono_literals;

struct counted final : completion_sink {
  void complete(const completion &event) override {
    (event.code == status::ok ? good : bad)++;
  }
  std::atomic<int> good = 0, bad = 0;
};

using endpoint = loopback_endpoint<counted>;

bool until(auto condition) {
  for (int i = 0; i < 10'000 && !condition(); i++)
    std::this_thread::sleep_for(1ms);
  return condition();
}

TEST(own_thread, receives_while_nobody_calls) {
  endpoint a, b;
  std::vector<char> sent(20'000'000), received(sent.size());
  for (size_t i = 0; i < sent.size(); i++)
    sent[i] = char(i * 7);
  iovec const source{sent.data(), sent.size()}, destination{received.data(), received.size()};
  ASSERT_EQ(b.speaker->post_receive(
                {.parts = {&destination, 1}, .pattern = {1, 0, any_peer}, .tagged = true}),
            status::ok);
  ASSERT_EQ(
      a.speaker->post_send({.target = a.peer(b), .parts = {&source, 1}, .tag = 1, .tagged = true}),
      status::ok);
  EXPECT_TRUE(until([&] { return a.done.good == 1 && b.done.good == 1; }));
  EXPECT_EQ(received, sent);
  EXPECT_GT(b.speaker->statistics().thread_drive_count, 0u);
}

TEST(own_thread, sends_what_a_flood_left_behind) {
  endpoint a, b;
  constexpr int count = 1000;
  std::vector<int> received(count, -1);
  for (int &value : received) {
    iovec const destination{&value, sizeof value};
    ASSERT_EQ(b.speaker->post_receive({.parts = {&destination, 1}}), status::ok);
  }
  peer_index const target = a.peer(b);
  for (int i = 0; i < count; i++) {
    iovec const source{&i, sizeof i};
    ASSERT_EQ(a.speaker->post_send({.target = target, .parts = {&source, 1}, .inject = true}),
              status::ok);
    ASSERT_TRUE(i != 0 || until([&] { return b.done.good == 1; }));  // connected
  }
  EXPECT_TRUE(until([&] { return b.done.good == count; }));
  for (int i = 0; i < count; i++)
    ASSERT_EQ(received[size_t(i)], i);
}

TEST(own_thread, sends_what_a_burst_of_puts_left_behind) {
  endpoint a, b;
  constexpr int count = 1000;
  std::vector<int> target_words(count, -1), words(count);
  auto *const memory = reinterpret_cast<std::byte *>(target_words.data());
  ASSERT_EQ(b.memory.add(1, memory, count * sizeof(int), 0, {true, true}), status::ok);
  peer_index const target = a.peer(b);
  for (int i = 0; i < count; i++) {
    words[size_t(i)] = i;
    iovec const source{&words[size_t(i)], sizeof(int)};
    ASSERT_EQ(a.speaker->post_put({.target = target,
                                   .parts = {&source, 1},
                                   .remote = {uint64_t(i) * sizeof(int), sizeof(int), 1}}),
              status::ok);
    ASSERT_TRUE(i != 0 || until([&] { return a.done.good == 1; }));  // connected
  }
  EXPECT_TRUE(until([&] { return a.done.good == count; }));
  // statistics() takes the target's lock, which orders its thread's writes before this thread's
  // reads. The kernel does so, too, but the thread sanitizer cannot see it.
  EXPECT_GT(b.speaker->statistics().thread_drive_count, 0u);
  EXPECT_EQ(target_words, words);
}

TEST(own_thread, answers_gets_while_nobody_calls) {
  endpoint a, b;
  uint64_t target_words = 42, result = 0;
  ASSERT_EQ(b.memory.add(1, reinterpret_cast<std::byte *>(&target_words), 8, 0, {true, true}),
            status::ok);
  iovec const destination{&result, 8};
  ASSERT_EQ(
      a.speaker->post_get({.target = a.peer(b), .parts = {&destination, 1}, .remote = {0, 8, 1}}),
      status::ok);
  EXPECT_TRUE(until([&] { return a.done.good == 1; }));
  EXPECT_EQ(result, 42u);
}

TEST(own_thread, leaves_a_caller_who_waits_alone) {
  endpoint a, b;
  std::atomic<bool> stop = false;
  std::thread caller{[&] {
    while (!stop)
      a.speaker->poll();
  }};
  std::this_thread::sleep_for(20ms);
  std::vector<char> sent(8), received(8);
  iovec const source{sent.data(), sent.size()}, destination{received.data(), received.size()};
  // On a busy node the caller may be delayed in any one round, but not in all of them.
  constexpr uint64_t drive_count_max = 50;
  uint64_t drive_count = drive_count_max;
  int message_count = 0;
  for (int round = 0; round < 20 && drive_count >= drive_count_max; round++) {
    uint64_t const before = a.speaker->statistics().thread_drive_count;
    for (int i = 0; i < 100; i++) {
      ASSERT_EQ(a.speaker->post_receive({.parts = {&destination, 1}}), status::ok);
      ASSERT_EQ(b.speaker->post_send({.target = b.peer(a), .parts = {&source, 1}}), status::ok);
      message_count++;
      ASSERT_TRUE(until([&] { return a.done.good == message_count; }));
    }
    drive_count = a.speaker->statistics().thread_drive_count - before;
  }
  stop = true;
  caller.join();
  EXPECT_LT(drive_count, drive_count_max);
}

TEST(threads, send_and_receive_at_a_time) {
  endpoint a, b;
  constexpr int thread_count = 4, message_count = 500;
  peer_index const target = a.peer(b);
  std::vector<std::thread> threads;
  std::vector<std::vector<int>> received(thread_count, std::vector<int>(message_count, -1));
  for (int t = 0; t < thread_count; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < message_count; i++) {
        iovec const part{&received[size_t(t)][size_t(i)], sizeof(int)};
        ASSERT_EQ(b.speaker->post_receive(
                      {.parts = {&part, 1}, .pattern = {uint64_t(t), 0, any_peer}, .tagged = true}),
                  status::ok);
        b.speaker->poll();
      }
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < message_count; i++) {
        iovec const part{&i, sizeof i};
        ASSERT_EQ(a.speaker->post_send({.target = target,
                                        .parts = {&part, 1},
                                        .tag = uint64_t(t),
                                        .tagged = true,
                                        .inject = true}),
                  status::ok);
        a.speaker->poll();
      }
    });
  }
  for (std::thread &worker : threads)
    worker.join();
  EXPECT_TRUE(until([&] { return b.done.good == thread_count * message_count; }));
  for (auto const &values : received)
    for (int i = 0; i < message_count; i++)
      ASSERT_EQ(values[size_t(i)], i);
}

bool is_done(void *argument) {
  return static_cast<counted *>(argument)->good > 0;
}

TEST(threads, wake_one_who_waits_for_what_another_received) {
  for (int round = 0; round < 50; round++) {
    endpoint a, b;
    int sent = 7, received = 0;
    iovec const source{&sent, sizeof sent}, destination{&received, sizeof received};
    ASSERT_EQ(b.speaker->post_receive({.parts = {&destination, 1}}), status::ok);
    std::thread poller{[&] {
      for (int i = 0; i < 1000 && b.done.good == 0; i++)
        b.speaker->poll();
    }};
    ASSERT_EQ(a.speaker->post_send({.target = a.peer(b), .parts = {&source, 1}}), status::ok);
    uint64_t const deadline_ns = seams::monotonic_clock().now_ns() + 5'000'000'000;
    while (b.done.good == 0 && seams::monotonic_clock().now_ns() < deadline_ns) {
      (void)b.speaker->wait(deadline_ns, is_done, &b.done);
      b.speaker->poll();
    }
    EXPECT_EQ(b.done.good, 1);
    poller.join();
  }
}

// Holds the engine's lock in its first completion until it is released, for at most 10 s.
struct holding_sink final : completion_sink {
  void complete(const completion &event) override {
    if (!is_held.exchange(true))
      has_timed_out = !until([&] { return is_released.load(); });
    if (event.code == status::ok)
      good_count++;
    if (event.code == status::canceled)
      canceled_count++;
    if (event.code == status::invalid)
      invalid_count++;
  }
  std::atomic<bool> is_held = false, is_released = false, has_timed_out = false;
  std::atomic<int> good_count = 0, canceled_count = 0, invalid_count = 0;
};

// Requests are accepted while another thread holds the engine lock, and carried out when it
// releases the lock. They keep their order, injected bytes are those at the time of the post, and a
// request that fails has a completion.
TEST(threads, post_while_another_one_drives) {
  loopback_endpoint<holding_sink> a;
  endpoint b;
  uint64_t first = 0, from_b = 0, never = 0;
  std::array<uint64_t, 3> received{};
  iovec const first_part{&first, 8}, never_part{&never, 8}, null_part{nullptr, 8},
      b_part{&from_b, 8};
  for (uint64_t &value : received) {
    iovec const part{&value, 8};
    ASSERT_EQ(
        b.speaker->post_receive({.parts = {&part, 1}, .pattern = {1, 0, any_peer}, .tagged = true}),
        status::ok);
  }
  ASSERT_EQ(a.speaker->post_receive({.parts = {&first_part, 1}}), status::ok);
  auto a_of_b = b.speaker->register_peer(a.speaker->address());
  ASSERT_EQ(b.speaker->post_send({.target = a_of_b.value(), .parts = {&b_part, 1}}), status::ok);
  ASSERT_TRUE(until([&] { return a.done.is_held.load(); }));

  peer_index const target = 0;  // b, which has sent a hello; register_peer() would block
  uint64_t bytes = 0;
  iovec const part{&bytes, 8};
  for (bytes = 1; bytes <= received.size(); bytes++)
    EXPECT_EQ(a.speaker->post_send({.target = target,
                                    .parts = {&part, 1},
                                    .tag = 1,
                                    .tagged = true,
                                    .inject = true,
                                    .errors_only = true}),
              status::ok);
  bytes = 99;
  EXPECT_EQ(a.speaker->post_receive({.parts = {&never_part, 1},
                                     .pattern = {2, 0, any_peer},
                                     .tagged = true,
                                     .context = &never}),
            status::ok);
  EXPECT_EQ(a.speaker->cancel(&never), status::ok);
  EXPECT_EQ(a.speaker->post_put({.target = target, .parts = {&null_part, 1}, .remote = {0, 8, 5}}),
            status::ok);
  EXPECT_EQ(a.speaker->poll(), 0u);
  // Sleeping callers, however many, use only one of the deferred jobs.
  auto const is_never_ready = [](void *) {
    return false;
  };
  for (uint32_t i = 0; i < 2 * handover_lock::job_count_max; i++) {
    ASSERT_EQ(a.speaker->wait(0, is_never_ready, nullptr), status::timed_out);
  }
  EXPECT_EQ(a.speaker->post_receive(
                {.parts = {&never_part, 1}, .pattern = {3, 0, any_peer}, .tagged = true}),
            status::ok);
  a.done.is_released = true;

  EXPECT_TRUE(until([&] {
    return b.done.good == 1 + int(received.size()) && a.done.canceled_count == 1 &&
           a.done.invalid_count == 1;
  }));
  EXPECT_EQ(received, (std::array<uint64_t, 3>{1, 2, 3}));
  EXPECT_EQ(a.done.good_count, 1);
  EXPECT_FALSE(a.done.has_timed_out);
}

}  // namespace
}  // namespace tanada::o2g
