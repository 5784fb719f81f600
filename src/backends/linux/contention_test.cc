// Goal: a thread that must share its processor learns so soon, and one that has it alone does not,
// though its wake-ups take a while. Method: the rule with made-up times; then threads of this
// process on one processor.
#include "seams/os/contention.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "seams/clock/clock.hpp"

namespace tanada::port {
namespace {

constexpr uint64_t ms = 1'000'000;

TEST(contention, waiting_is_noticed_and_held) {
  contention_rule rule;
  rule.look(1000 * ms, 5 * ms);
  EXPECT_FALSE(rule.is_due(1000 * ms + 1));
  EXPECT_TRUE(rule.is_due(1001 * ms));
  rule.look(1004 * ms, 8 * ms);
  EXPECT_TRUE(rule.is_short());
  EXPECT_FALSE(rule.is_due(1013 * ms));
  EXPECT_TRUE(rule.is_due(1014 * ms));
  rule.look(1014 * ms, 8 * ms + 500'000);
  EXPECT_FALSE(rule.is_short());
}

TEST(contention, what_comes_back_soon_is_held_longer) {
  contention_rule rule;
  uint64_t now_ns = 1000 * ms, waited_ns = 1 * ms, held_ns = 0;
  rule.look(now_ns, waited_ns);
  for (int i = 0; i < 8; i++) {
    now_ns += 4 * ms;
    waited_ns += 3 * ms;
    rule.look(now_ns, waited_ns);
    ASSERT_TRUE(rule.is_short());
    held_ns = 0;
    while (!rule.is_due(now_ns + held_ns))
      held_ns += ms;
    now_ns += held_ns;
    rule.look(now_ns, waited_ns);
    ASSERT_FALSE(rule.is_short());
  }
  EXPECT_EQ(held_ns, contention_rule::hold_ns_max);
  now_ns += 10'000 * ms;
  waited_ns += 1000 * ms;
  rule.look(now_ns, waited_ns);
  EXPECT_TRUE(rule.is_due(now_ns + contention_rule::hold_ns_min));
}

TEST(contention, a_wake_up_is_none) {
  contention_rule rule;
  rule.look(1000 * ms, 5 * ms);
  rule.begin(1002 * ms, 6 * ms);
  rule.look(1003 * ms, 6 * ms + 10'000);
  EXPECT_FALSE(rule.is_short());
}

// Two threads spin on one processor until each has been told, which takes a time slice or two.
TEST(contention, two_that_spin_on_one_processor_are_told) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &before)) {
      CPU_SET(i, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  std::atomic<int> told = 0;
  auto const spin = [&] {
    uint64_t const end_ns = monotonic_clock().now_ns() + 20'000 * ms;
    bool is_told = false;
    while (told.load() < 2 && monotonic_clock().now_ns() < end_ns)
      if (processors::are_short(monotonic_clock().now_ns()) && !is_told) {
        is_told = true;
        told++;
      }
  };
  std::thread other{spin};
  spin();
  other.join();
  EXPECT_EQ(told.load(), 2);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace tanada::port
