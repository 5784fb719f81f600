#include "seams/alarm/shared_alarm.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "seams/clock/clock.hpp"

namespace tanada::port {
namespace {

struct shared {
  shared_alarm alarm;
  std::atomic<uint32_t> value{0};
};

// Two processes hand a number to and fro. Sleeps last ten seconds: each ring that is lost would
// show.
TEST(shared_alarm, wakes_another_process) {
  void *const memory =
      mmap(nullptr, 2 * sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto *const both = static_cast<shared *>(memory);
  constexpr uint32_t rounds = 200;
  auto const play = [&](shared &mine, shared &other, bool begins) {
    for (uint32_t round = 1; round <= rounds; round++) {
      if (begins) {
        other.value.store(round);
        other.alarm.ring({8, 9});
      }
      uint64_t const limit_ns = monotonic_clock().now_ns() + 30'000'000'000;
      while (mine.value.load() != round && monotonic_clock().now_ns() < limit_ns) {
        mine.alarm.sleep([&] { return mine.value.load() == round; }, 1'000'000'000, {0, 9});
      }
      if (!begins) {
        other.value.store(round);
        other.alarm.ring({8, 9});
      }
    }
  };
  uint64_t const begun_ns = monotonic_clock().now_ns();
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
  // A few may be missed, not most.
  EXPECT_LT(monotonic_clock().now_ns() - begun_ns, 20'000'000'000u);
  munmap(memory, 2 * sizeof(shared));
}

TEST(shared_alarm, sleeps_no_longer_than_it_is_told) {
  shared_alarm alarm;
  uint64_t const begun_ns = monotonic_clock().now_ns();
  alarm.sleep([] { return false; }, 2'000'000);
  EXPECT_GE(monotonic_clock().now_ns() - begun_ns, 1'000'000u);
  alarm.sleep([] { return true; }, 60'000'000'000);
  alarm.ring({0, 8});
}

TEST(shared_alarm, is_deaf_to_what_it_does_not_wait_for) {
  shared_alarm alarm;
  std::atomic<bool> has_ended{false};
  std::thread ringer{[&] {
    while (!has_ended) {
      alarm.ring({16, 24});
      alarm.ring({0, 8});
    }
  }};
  uint64_t const begun_ns = monotonic_clock().now_ns();
  alarm.sleep([] { return false; }, 20'000'000, {8, 16});
  EXPECT_GE(monotonic_clock().now_ns() - begun_ns, 19'000'000u);
  has_ended = true;
  ringer.join();
}

}  // namespace
}  // namespace tanada::port
