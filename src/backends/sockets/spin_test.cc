// Polling before a sleep: its end, and when it is left out.
#include "backends/sockets/spin.hpp"

#include <gtest/gtest.h>

namespace tanada::backends {
namespace {

constexpr uint64_t no_deadline_ns = ~uint64_t{0};

TEST(spinner, polls_until_the_condition_is_true) {
  spinner polls{1'000'000'000};
  int count = 0;
  EXPECT_TRUE(polls.spin(no_deadline_ns, [&count] { return ++count == 3; }));
  EXPECT_EQ(count, 3);
}

TEST(spinner, ends_after_its_time_and_at_the_deadline) {
  spinner polls{1'000};
  EXPECT_FALSE(polls.spin(no_deadline_ns, [] { return false; }));
  spinner patient{uint64_t{3600} * 1'000'000'000};
  EXPECT_FALSE(patient.spin(1, [] { return false; }));
}

TEST(spinner, without_time_does_not_poll) {
  spinner none{0};
  EXPECT_FALSE(none.spin(no_deadline_ns, [] { return true; }));
}

TEST(spinner, that_was_fruitless_twice_polls_once_in_eight_waits_until_it_succeeds) {
  spinner polls{1};
  auto const is_tried = [&polls](bool outcome) {
    bool was_called = false;
    (void)polls.spin(no_deadline_ns, [&] {
      was_called = true;
      return outcome;
    });
    return was_called;
  };
  EXPECT_TRUE(is_tried(false));
  EXPECT_TRUE(is_tried(false));
  int count = 0;
  for (int i = 0; i < 80; i++)
    count += is_tried(false) ? 1 : 0;
  EXPECT_EQ(count, 10);
  bool succeeded = false;
  for (int i = 0; i < 8 && !succeeded; i++)
    succeeded = is_tried(true);
  EXPECT_TRUE(succeeded);
  EXPECT_TRUE(is_tried(true));
}

}  // namespace
}  // namespace tanada::backends
