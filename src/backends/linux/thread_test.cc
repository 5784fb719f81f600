#include "seams/os/thread.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

cpu_set_t processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

// The calling thread's first processor, to which it is bound then.
cpu_set_t bind_to_first() {
  cpu_set_t const before = processors();
  cpu_set_t single;
  CPU_ZERO(&single);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&single) == 0; i++)
    if (CPU_ISSET(i, &before))
      CPU_SET(i, &single);
  EXPECT_EQ(sched_setaffinity(0, sizeof single, &single), 0);
  return single;
}

TEST(thread, leaves_a_single_processor_only_under_a_launcher) {
  std::thread{[] {
    cpu_set_t const before = processors(), single = bind_to_first();
    for (const char *const name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
      unsetenv(name);
    seams::thread_leave_single_core();
    cpu_set_t after = processors();
    EXPECT_TRUE(CPU_EQUAL(&after, &single));
    setenv("PMIX_RANK", "0", 1);
    seams::thread_leave_single_core();
    unsetenv("PMIX_RANK");
    after = processors();
    EXPECT_GE(CPU_COUNT(&after), CPU_COUNT(&before));
  }}.join();
}

TEST(thread, is_bound_to_processors_of_the_node_that_it_may_use) {
  std::thread{[] {
    cpu_set_t const before = processors();
    seams::thread_bind_to_node(-1);
    seams::thread_bind_to_node(100'000);  // there is no such node
    cpu_set_t same = processors();
    EXPECT_TRUE(CPU_EQUAL(&same, &before));
    cpu_set_t const single = bind_to_first();
    seams::thread_bind_to_node(0);  // a user's choice must not be widened
    cpu_set_t after = processors();
    EXPECT_TRUE(CPU_EQUAL(&after, &single));
  }}.join();
}

TEST(thread, sleeps_as_long_as_it_asks) {
  std::thread{[] {
    seams::thread_set_precise_sleep();
    uint64_t shortest = ~uint64_t{0};
    for (int i = 0; i < 200; i++) {
      uint64_t const start = seams::monotonic_clock().now_ns();
      seams::monotonic_clock().sleep_ns(10'000);
      shortest = std::min(shortest, seams::monotonic_clock().now_ns() - start);
    }
    EXPECT_LT(shortest, 55'000u);  // the timer slack of other threads is 50 us
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
    seams::thread_set_short_slice();
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, &after, sizeof after, 0), 0);
    EXPECT_EQ(after.policy, before.policy);
    EXPECT_EQ(after.nice, before.nice);
    if (before.runtime == 0)
      GTEST_SKIP() << "the system has one slice for all";
    EXPECT_LT(after.runtime, before.runtime);
  }}.join();
}

TEST(thread, memory_of_a_node_that_is_not_there_is_no_error) {
  seams::memory_node_preference const no_node{-1}, beyond{63};
  std::vector<char> touched(1 << 20, 'x');
  EXPECT_EQ(touched.back(), 'x');
}

}  // namespace
}  // namespace tanada::backends
