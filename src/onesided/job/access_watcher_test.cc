// The thread that sleeps in an endpoint for those that sleep on an alarm.
#include "onesided/job/access_watcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace tanada::onesided {
namespace {

constexpr uint64_t limit_ns = 20'000'000'000;

template <class Condition>
bool comes_true(Condition condition) {
  auto &time = seams::monotonic_clock();
  for (uint64_t const end_ns = time.now_ns() + limit_ns; time.now_ns() < end_ns;) {
    if (condition())
      return true;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return false;
}

// An endpoint whose sleeps end as the test chooses.
struct fake_endpoint {
  std::atomic<uint32_t> sleep_count{0}, wake_count{0};
  std::atomic<bool> is_accessed{false}, is_in_use{false}, sleeps_whole_slice{false};

  status wait_for_access(uint64_t deadline_ns) {
    sleep_count.fetch_add(1);
    if (is_in_use)
      return status::busy;
    while (seams::monotonic_clock().now_ns() < deadline_ns) {
      if (is_accessed.exchange(false))
        return status::ok;
      std::this_thread::yield();
    }
    return sleeps_whole_slice ? status::ok : status::timed_out;
  }

  access_watcher::callbacks callbacks() {
    return {
        .wait_for_access = [this](uint64_t deadline_ns) { return wait_for_access(deadline_ns); },
        .wake =
            [this] {
              wake_count.fetch_add(1);
            }};
  }
};

TEST(access_watcher, an_access_wakes_the_sleepers_of_the_alarm) {
  fake_endpoint endpoint;
  endpoint.is_accessed = true;
  access_watcher watcher{endpoint.callbacks(), seams::monotonic_clock()};
  for (uint32_t round = 1; round <= 3; round++) {
    endpoint.is_accessed = true;
    // A slice that lasts too long on a loaded machine counts as one without an access.
    EXPECT_TRUE(comes_true([&] {
      watcher.arm();
      return watcher.access_count() >= round;
    }));
    EXPECT_TRUE(comes_true([&] { return endpoint.wake_count >= round; }));
  }
}

TEST(access_watcher, an_unarmed_watcher_leaves_the_endpoint_to_others) {
  fake_endpoint endpoint;
  access_watcher watcher{endpoint.callbacks(), seams::monotonic_clock()};
  std::this_thread::sleep_for(std::chrono::nanoseconds(3 * access_watcher::slice_ns));
  EXPECT_EQ(endpoint.sleep_count, 0u);
  watcher.arm();
  EXPECT_TRUE(comes_true([&] { return endpoint.sleep_count == 1; }));
  std::this_thread::sleep_for(std::chrono::nanoseconds(3 * access_watcher::slice_ns));
  EXPECT_EQ(endpoint.sleep_count, 1u);
  EXPECT_EQ(endpoint.wake_count, 0u);
}

TEST(access_watcher, a_slice_without_an_event_is_no_access) {
  fake_endpoint endpoint;
  endpoint.sleeps_whole_slice = true;
  access_watcher watcher{endpoint.callbacks(), seams::monotonic_clock()};
  watcher.arm();
  EXPECT_TRUE(comes_true([&] { return endpoint.sleep_count == 1; }));
  watcher.stop();
  EXPECT_EQ(watcher.access_count(), 0u);
  EXPECT_EQ(endpoint.wake_count, 0u);
}

TEST(access_watcher, an_endpoint_in_use_wakes_the_sleepers_after_a_pause) {
  fake_endpoint endpoint;
  endpoint.is_in_use = true;
  access_watcher watcher{endpoint.callbacks(), seams::monotonic_clock()};
  watcher.arm();
  EXPECT_TRUE(comes_true([&] { return endpoint.wake_count == 1; }));
  EXPECT_EQ(watcher.access_count(), 0u);
}

TEST(access_watcher, stop_ends_an_armed_watcher) {
  fake_endpoint endpoint;
  access_watcher watcher{endpoint.callbacks(), seams::monotonic_clock()};
  watcher.arm();
  watcher.stop();
  watcher.stop();
  EXPECT_LE(endpoint.sleep_count, 1u);
}

}  // namespace
}  // namespace tanada::onesided
