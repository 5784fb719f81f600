#include "seams/os/thread.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "seams/clock/clock.hpp"

namespace tanada::port {
namespace {

cpu_set_t processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(thread, is_bound_to_processors_of_the_node_that_it_may_use) {
  std::thread{[] {
    cpu_set_t const before = processors();
    thread_bind_to_node(-1);
    thread_bind_to_node(100'000);  // there is no such node
    cpu_set_t same = processors();
    EXPECT_TRUE(CPU_EQUAL(&same, &before));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
      if (CPU_ISSET(i, &before))
        CPU_SET(i, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    thread_bind_to_node(0);  // a user's choice is not widened
    cpu_set_t after = processors();
    EXPECT_TRUE(CPU_EQUAL(&after, &one));
  }}.join();
}

TEST(thread, sleeps_as_long_as_it_asks) {
  std::thread{[] {
    thread_sleeps_precisely();
    uint64_t shortest = ~uint64_t{0};
    for (int i = 0; i < 200; i++) {
      uint64_t const start = monotonic_clock().now_ns();
      monotonic_clock().sleep_ns(10'000);
      shortest = std::min(shortest, monotonic_clock().now_ns() - start);
    }
    EXPECT_LT(shortest, 55'000u);  // the slack of other threads is 50 us
  }}.join();
}

TEST(thread, short_slices_are_all_that_changes) {
  std::thread{[] {
    struct {
      uint32_t size, policy;
      uint64_t flags;
      int32_t nice;
      uint32_t priority;
      uint64_t runtime, deadline, period;
    } before{}, after{};
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, &before, sizeof before, 0), 0);
    thread_runs_briefly();
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, &after, sizeof after, 0), 0);
    EXPECT_EQ(after.policy, before.policy);
    EXPECT_EQ(after.nice, before.nice);
    if (before.runtime == 0)
      GTEST_SKIP() << "the system has one slice for all";
    EXPECT_LT(after.runtime, before.runtime);
  }}.join();
}

TEST(thread, memory_of_a_node_that_is_not_there_is_no_error) {
  memory_near_node const none{-1}, beyond{63};
  std::vector<char> touched(1 << 20, 'x');
  EXPECT_EQ(touched.back(), 'x');
}

}  // namespace
}  // namespace tanada::port
