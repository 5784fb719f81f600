// Goal: a thread that shares its processor detects it soon, and a thread with a processor of its
// own does not, though its wake-ups take a while. Method: the rule with simulated times; then
// threads of this process on one processor.
#include "seams/os/contention.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t ms = 1'000'000;

TEST(contention, waiting_is_noticed_and_held) {
  seams::contention_rule rule;
  rule.update(1000 * ms, 5 * ms);
  EXPECT_FALSE(rule.is_due(1000 * ms + 1));
  EXPECT_TRUE(rule.is_due(1001 * ms));
  rule.update(1004 * ms, 8 * ms);
  EXPECT_TRUE(rule.is_oversubscribed());
  EXPECT_FALSE(rule.is_due(1013 * ms));
  EXPECT_TRUE(rule.is_due(1014 * ms));
  rule.update(1014 * ms, 8 * ms + 500'000);
  EXPECT_FALSE(rule.is_oversubscribed());
}

TEST(contention, what_comes_back_soon_is_held_longer) {
  seams::contention_rule rule;
  uint64_t now_ns = 1000 * ms, waited_ns = 1 * ms, held_ns = 0;
  rule.update(now_ns, waited_ns);
  for (int i = 0; i < 8; i++) {
    now_ns += 4 * ms;
    waited_ns += 3 * ms;
    rule.update(now_ns, waited_ns);
    ASSERT_TRUE(rule.is_oversubscribed());
    held_ns = 0;
    while (!rule.is_due(now_ns + held_ns))
      held_ns += ms;
    now_ns += held_ns;
    rule.update(now_ns, waited_ns);
    ASSERT_FALSE(rule.is_oversubscribed());
  }
  EXPECT_EQ(held_ns, seams::contention_rule::hold_ns_max);
  now_ns += 10'000 * ms;
  waited_ns += 1000 * ms;
  rule.update(now_ns, waited_ns);
  EXPECT_TRUE(rule.is_due(now_ns + seams::contention_rule::hold_ns_min));
}

TEST(contention, a_wake_up_is_none) {
  seams::contention_rule rule;
  rule.update(1000 * ms, 5 * ms);
  rule.restart(1002 * ms, 6 * ms);
  rule.update(1003 * ms, 6 * ms + 10'000);
  EXPECT_FALSE(rule.is_oversubscribed());
}

// Two threads spin on one processor until each has detected it, which takes a time slice or two.
TEST(contention, two_that_spin_on_one_processor_are_told) {
  cpu_set_t previous, single;
  ASSERT_EQ(sched_getaffinity(0, sizeof previous, &previous), 0);
  CPU_ZERO(&single);
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &previous)) {
      CPU_SET(i, &single);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof single, &single), 0);
  std::atomic<int> noticed_count = 0;
  auto const spin = [&] {
    uint64_t const end_ns = seams::monotonic_clock().now_ns() + 20'000 * ms;
    bool has_noticed = false;
    while (noticed_count.load() < 2 && seams::monotonic_clock().now_ns() < end_ns)
      if (seams::processors::is_oversubscribed(seams::monotonic_clock().now_ns()) && !has_noticed) {
        has_noticed = true;
        noticed_count++;
      }
  };
  std::thread second_thread{spin};
  spin();
  second_thread.join();
  EXPECT_EQ(noticed_count.load(), 2);
  ASSERT_EQ(sched_setaffinity(0, sizeof previous, &previous), 0);
}

}  // namespace
}  // namespace tanada::backends
