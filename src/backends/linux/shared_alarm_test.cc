#include "seams/alarm/shared_alarm.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

struct shared {
  seams::shared_alarm alarm;
  std::atomic<uint32_t> value{0};
};

// Two processes pass a number back and forth. Each sleep lasts up to ten seconds, so that lost
// wake-ups show in the total time.
TEST(shared_alarm, wakes_another_process) {
  void *const memory =
      mmap(nullptr, 2 * sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto *const both = static_cast<shared *>(memory);
  constexpr uint32_t rounds = 200;
  auto const play = [&](shared &self, shared &peer, bool begins) {
    for (uint32_t round = 1; round <= rounds; round++) {
      if (begins) {
        peer.value.store(round);
        peer.alarm.wake({8, 9});
      }
      uint64_t const limit_ns = seams::monotonic_clock().now_ns() + 30'000'000'000;
      while (self.value.load() != round && seams::monotonic_clock().now_ns() < limit_ns) {
        self.alarm.sleep([&] { return self.value.load() == round; }, 1'000'000'000, {0, 9});
      }
      if (!begins) {
        peer.value.store(round);
        peer.alarm.wake({8, 9});
      }
    }
  };
  uint64_t const begun_ns = seams::monotonic_clock().now_ns();
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    play(both[1], both[0], false);
    _exit(0);
  }
  play(both[0], both[1], true);
  int code = 0;
  waitpid(child, &code, 0);
  EXPECT_EQ(both[0].value.load(), rounds);
  // A few wake-ups may be missed, but not most.
  EXPECT_LT(seams::monotonic_clock().now_ns() - begun_ns, 20'000'000'000u);
  munmap(memory, 2 * sizeof(shared));
}

TEST(shared_alarm, sleeps_no_longer_than_it_is_told) {
  seams::shared_alarm alarm;
  uint64_t const begun_ns = seams::monotonic_clock().now_ns();
  alarm.sleep([] { return false; }, 2'000'000);
  EXPECT_GE(seams::monotonic_clock().now_ns() - begun_ns, 1'000'000u);
  alarm.sleep([] { return true; }, 60'000'000'000);
  alarm.wake({0, 8});
}

TEST(shared_alarm, is_deaf_to_what_it_does_not_wait_for) {
  seams::shared_alarm alarm;
  std::atomic<bool> has_ended{false};
  std::thread ringer{[&] {
    while (!has_ended) {
      alarm.wake({16, 24});
      alarm.wake({0, 8});
    }
  }};
  uint64_t const begun_ns = seams::monotonic_clock().now_ns();
  alarm.sleep([] { return false; }, 20'000'000, {8, 16});
  EXPECT_GE(seams::monotonic_clock().now_ns() - begun_ns, 19'000'000u);
  has_ended = true;
  ringer.join();
}

}  // namespace
}  // namespace tanada::backends
