// Tests of events: no signal is missed, and waits are bounded.
#include "executor/event.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tanada::simt::host {
namespace {

using clock = std::chrono::steady_clock;
constexpr u64 long_ns = 20'000'000'000;

TEST(event, a_signal_after_the_ticket_ends_the_wait_at_once) {
  event signaled;
  u32 const ticket = signaled.ticket();
  signaled.signal();
  auto const begin = clock::now();
  signaled.wait(ticket, long_ns);
  EXPECT_LT(clock::now() - begin, std::chrono::seconds(10));
}

TEST(event, a_wait_without_a_signal_ends_at_its_timeout) {
  event silent;
  auto const begin = clock::now();
  for (int i = 0; i < 20; i++)  // a wait may return early
    silent.wait(silent.ticket(), 1'000'000);
  EXPECT_GE(clock::now() - begin, std::chrono::milliseconds(10));
}

TEST(event, two_threads_alternate_without_missing_a_signal) {
  constexpr int round_count = 20'000;
  event to_second, to_first;
  std::atomic<int> turn{0};
  auto const alternate = [&](int parity, event &own, event &peer) {
    for (int round = parity; round < round_count; round += 2) {
      for (u32 ticket = own.ticket(); turn.load() != round; ticket = own.ticket())
        own.wait(ticket, long_ns);
      turn.store(round + 1);
      peer.signal();
    }
  };
  auto const begin = clock::now();
  std::thread second{[&] {
    alternate(1, to_second, to_first);
  }};
  alternate(0, to_first, to_second);
  second.join();
  EXPECT_EQ(turn.load(), round_count);
  EXPECT_LT(clock::now() - begin, std::chrono::nanoseconds(long_ns));
}

}  // namespace
}  // namespace tanada::simt::host
