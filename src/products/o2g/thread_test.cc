// Engines whose own threads drive them, and callers of several threads.

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
  void complete(const completion &what) override {
    (what.code == status::ok ? good : bad)++;
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
  std::vector<char> sent(20'000'000), came(sent.size());
  for (size_t i = 0; i < sent.size(); i++)
    sent[i] = char(i * 7);
  iovec const from{sent.data(), sent.size()}, to{came.data(), came.size()};
  ASSERT_EQ(
      b.speaker->post_receive({.parts = {&to, 1}, .pattern = {1, 0, any_peer}, .tagged = true}),
      status::ok);
  ASSERT_EQ(a.speaker->post_send({.to = a.peer(b), .parts = {&from, 1}, .tag = 1, .tagged = true}),
            status::ok);
  EXPECT_TRUE(until([&] { return a.done.good == 1 && b.done.good == 1; }));
  EXPECT_EQ(came, sent);
  EXPECT_GT(b.speaker->statistics().thread_drives, 0u);
}

TEST(own_thread, sends_what_a_flood_left_behind) {
  endpoint a, b;
  constexpr int count = 1000;
  std::vector<int> came(count, -1);
  for (int &each : came) {
    iovec const to{&each, sizeof each};
    ASSERT_EQ(b.speaker->post_receive({.parts = {&to, 1}}), status::ok);
  }
  peer_index const to = a.peer(b);
  for (int i = 0; i < count; i++) {
    iovec const from{&i, sizeof i};
    ASSERT_EQ(a.speaker->post_send({.to = to, .parts = {&from, 1}, .inject = true}), status::ok);
    ASSERT_TRUE(i != 0 || until([&] { return b.done.good == 1; }));  // connected
  }
  EXPECT_TRUE(until([&] { return b.done.good == count; }));
  for (int i = 0; i < count; i++)
    ASSERT_EQ(came[size_t(i)], i);
}

TEST(own_thread, sends_what_a_burst_of_puts_left_behind) {
  endpoint a, b;
  constexpr int count = 1000;
  std::vector<int> there(count, -1), words(count);
  auto *const memory = reinterpret_cast<std::byte *>(there.data());
  ASSERT_EQ(b.memory.add(1, memory, count * sizeof(int), 0, {true, true}), status::ok);
  peer_index const to = a.peer(b);
  for (int i = 0; i < count; i++) {
    words[size_t(i)] = i;
    iovec const from{&words[size_t(i)], sizeof(int)};
    ASSERT_EQ(
        a.speaker->post_put(
            {.to = to, .parts = {&from, 1}, .remote = {uint64_t(i) * sizeof(int), sizeof(int), 1}}),
        status::ok);
    ASSERT_TRUE(i != 0 || until([&] { return a.done.good == 1; }));  // connected
  }
  EXPECT_TRUE(until([&] { return a.done.good == count; }));
  // The target's lock orders its thread's writes before this thread's reads: the kernel does so,
  // too, but no checker sees it.
  EXPECT_GT(b.speaker->statistics().thread_drives, 0u);
  EXPECT_EQ(there, words);
}

TEST(own_thread, answers_gets_while_nobody_calls) {
  endpoint a, b;
  uint64_t there = 42, here = 0;
  ASSERT_EQ(b.memory.add(1, reinterpret_cast<std::byte *>(&there), 8, 0, {true, true}), status::ok);
  iovec const to{&here, 8};
  ASSERT_EQ(a.speaker->post_get({.to = a.peer(b), .parts = {&to, 1}, .remote = {0, 8, 1}}),
            status::ok);
  EXPECT_TRUE(until([&] { return a.done.good == 1; }));
  EXPECT_EQ(here, 42u);
}

TEST(own_thread, leaves_a_caller_who_waits_alone) {
  endpoint a, b;
  std::atomic<bool> stop = false;
  std::thread caller{[&] {
    while (!stop)
      a.speaker->poll();
  }};
  std::this_thread::sleep_for(20ms);
  std::vector<char> sent(8), came(8);
  iovec const from{sent.data(), sent.size()}, to{came.data(), came.size()};
  // A busy machine may hold the caller up in any one round, but not in all of them.
  constexpr uint64_t drive_count_max = 50;
  uint64_t drive_count = drive_count_max;
  int message_count = 0;
  for (int round = 0; round < 20 && drive_count >= drive_count_max; round++) {
    uint64_t const before = a.speaker->statistics().thread_drives;
    for (int i = 0; i < 100; i++) {
      ASSERT_EQ(a.speaker->post_receive({.parts = {&to, 1}}), status::ok);
      ASSERT_EQ(b.speaker->post_send({.to = b.peer(a), .parts = {&from, 1}}), status::ok);
      message_count++;
      ASSERT_TRUE(until([&] { return a.done.good == message_count; }));
    }
    drive_count = a.speaker->statistics().thread_drives - before;
  }
  stop = true;
  caller.join();
  EXPECT_LT(drive_count, drive_count_max);
}

TEST(threads, send_and_receive_at_a_time) {
  endpoint a, b;
  constexpr int thread_count = 4, message_count = 500;
  peer_index const to = a.peer(b);
  std::vector<std::thread> threads;
  std::vector<std::vector<int>> came(thread_count, std::vector<int>(message_count, -1));
  for (int t = 0; t < thread_count; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < message_count; i++) {
        iovec const part{&came[size_t(t)][size_t(i)], sizeof(int)};
        ASSERT_EQ(b.speaker->post_receive(
                      {.parts = {&part, 1}, .pattern = {uint64_t(t), 0, any_peer}, .tagged = true}),
                  status::ok);
        b.speaker->poll();
      }
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < message_count; i++) {
        iovec const part{&i, sizeof i};
        ASSERT_EQ(a.speaker->post_send({.to = to,
                                        .parts = {&part, 1},
                                        .tag = uint64_t(t),
                                        .tagged = true,
                                        .inject = true}),
                  status::ok);
        a.speaker->poll();
      }
    });
  }
  for (std::thread &each : threads)
    each.join();
  EXPECT_TRUE(until([&] { return b.done.good == thread_count * message_count; }));
  for (auto const &each : came)
    for (int i = 0; i < message_count; i++)
      ASSERT_EQ(each[size_t(i)], i);
}

bool is_done(void *argument) {
  return static_cast<counted *>(argument)->good > 0;
}

TEST(threads, wake_one_who_waits_for_what_another_received) {
  for (int round = 0; round < 50; round++) {
    endpoint a, b;
    int sent = 7, came = 0;
    iovec const from{&sent, sizeof sent}, to{&came, sizeof came};
    ASSERT_EQ(b.speaker->post_receive({.parts = {&to, 1}}), status::ok);
    std::thread other{[&] {
      for (int i = 0; i < 1000 && b.done.good == 0; i++)
        b.speaker->poll();
    }};
    ASSERT_EQ(a.speaker->post_send({.to = a.peer(b), .parts = {&from, 1}}), status::ok);
    uint64_t const deadline_ns = port::monotonic_clock().now_ns() + 5'000'000'000;
    while (b.done.good == 0 && port::monotonic_clock().now_ns() < deadline_ns) {
      (void)b.speaker->wait(deadline_ns, is_done, &b.done);
      b.speaker->poll();
    }
    EXPECT_EQ(b.done.good, 1);
    other.join();
  }
}

// Holds the engine's lock in its first completion until it is let go, 20 s at most.
struct holding_sink final : completion_sink {
  void complete(const completion &what) override {
    if (!is_held.exchange(true))
      has_timed_out = !until([&] { return is_let_go.load(); });
    if (what.code == status::ok)
      good_count++;
    if (what.code == status::canceled)
      canceled_count++;
    if (what.code == status::invalid)
      invalid_count++;
  }
  std::atomic<bool> is_held = false, is_let_go = false, has_timed_out = false;
  std::atomic<int> good_count = 0, canceled_count = 0, invalid_count = 0;
};

// Requests are accepted while another thread has the engine, and done when it leaves: in their
// order, with the bytes that an injected one had then, and with a completion for the one that
// fails.
TEST(threads, post_while_another_one_drives) {
  loopback_endpoint<holding_sink> a;
  endpoint b;
  uint64_t first = 0, from_b = 0, never = 0;
  std::array<uint64_t, 3> came{};
  iovec const first_part{&first, 8}, never_part{&never, 8}, null_part{nullptr, 8},
      b_part{&from_b, 8};
  for (uint64_t &each : came) {
    iovec const part{&each, 8};
    ASSERT_EQ(
        b.speaker->post_receive({.parts = {&part, 1}, .pattern = {1, 0, any_peer}, .tagged = true}),
        status::ok);
  }
  ASSERT_EQ(a.speaker->post_receive({.parts = {&first_part, 1}}), status::ok);
  auto a_of_b = b.speaker->peer_of(a.speaker->address());
  ASSERT_EQ(b.speaker->post_send({.to = a_of_b.value(), .parts = {&b_part, 1}}), status::ok);
  ASSERT_TRUE(until([&] { return a.done.is_held.load(); }));

  peer_index const to = 0;  // b, which has greeted; peer_of() would wait
  uint64_t bytes = 0;
  iovec const part{&bytes, 8};
  for (bytes = 1; bytes <= came.size(); bytes++)
    EXPECT_EQ(a.speaker->post_send({.to = to,
                                    .parts = {&part, 1},
                                    .tag = 1,
                                    .tagged = true,
                                    .inject = true,
                                    .quiet = true}),
              status::ok);
  bytes = 99;
  EXPECT_EQ(a.speaker->post_receive({.parts = {&never_part, 1},
                                     .pattern = {2, 0, any_peer},
                                     .tagged = true,
                                     .context = &never}),
            status::ok);
  EXPECT_EQ(a.speaker->cancel(&never), status::ok);
  EXPECT_EQ(a.speaker->post_put({.to = to, .parts = {&null_part, 1}, .remote = {0, 8, 5}}),
            status::ok);
  EXPECT_EQ(a.speaker->poll(), 0u);
  // Those who sleep meanwhile, however often, take nobody's room among the requests that are left.
  auto const is_never_ready = [](void *) {
    return false;
  };
  for (uint32_t i = 0; i < 2 * handover_lock::job_count_max; i++) {
    ASSERT_EQ(a.speaker->wait(0, is_never_ready, nullptr), status::timed_out);
  }
  EXPECT_EQ(a.speaker->post_receive(
                {.parts = {&never_part, 1}, .pattern = {3, 0, any_peer}, .tagged = true}),
            status::ok);
  a.done.is_let_go = true;

  EXPECT_TRUE(until([&] {
    return b.done.good == 1 + int(came.size()) && a.done.canceled_count == 1 &&
           a.done.invalid_count == 1;
  }));
  EXPECT_EQ(came, (std::array<uint64_t, 3>{1, 2, 3}));
  EXPECT_EQ(a.done.good_count, 1);
  EXPECT_FALSE(a.done.has_timed_out);
}

}  // namespace
}  // namespace tanada::o2g
