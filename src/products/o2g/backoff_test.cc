// Goal: a caller whose polls are fruitless sleeps when the backoff requires it, and no longer.
// Method: polls at simulated times.
#include "products/o2g/backoff.hpp"

#include <gtest/gtest.h>

namespace tanada::o2g {
namespace {

constexpr uint64_t us = 1000, ms = 1000 * us;

struct fake_processors {
  bool is_short = true;
  uint64_t just_waited_ns = 0;
  bool is_oversubscribed(uint64_t) const {
    return is_short;
  }
  uint64_t waited_ns() const {
    return just_waited_ns;
  }
};

// Polls each microsecond from `start_ns` for `span_ns`. Returns the time of the first sleep; 0:
// none.
uint64_t first_sleep(backoff &rule, uint64_t start_ns, uint64_t span_ns, bool is_contended) {
  for (uint64_t now_ns = start_ns; now_ns < start_ns + span_ns; now_ns += us)
    if (rule.record_empty_poll(now_ns, 50 * ms, fake_processors{is_contended}) != 0)
      return now_ns;
  return 0;
}

TEST(idle, spins_long_on_a_free_processor_and_briefly_on_one_that_others_want) {
  backoff uncontended, contended;
  EXPECT_EQ(first_sleep(uncontended, 1 * ms, 20 * ms, false), 11 * ms);
  EXPECT_EQ(first_sleep(contended, 1 * ms, 20 * ms, true), 1 * ms + 50 * us);
}

// The system takes the processor away for short times.
TEST(idle, a_short_pause_ends_no_long_wait) {
  backoff rule;
  EXPECT_EQ(first_sleep(rule, 1 * ms, 2 * ms, false), 0u);
  EXPECT_EQ(first_sleep(rule, 3 * ms + 20 * us, 20 * ms, false), 11 * ms + 20 * us - 20 * us);
}

// A caller that computes between its polls is not waiting.
TEST(idle, regular_pauses_are_no_wait) {
  backoff rule;
  for (uint64_t now_ns = 1 * ms; now_ns < 500 * ms; now_ns += 20 * us)
    ASSERT_EQ(rule.record_empty_poll(now_ns, 50 * ms, fake_processors{}), 0u);
}

TEST(idle, sleeps_an_eighth_of_the_wait_within_the_limit) {
  backoff rule;
  fake_processors const wanted;
  (void)rule.record_empty_poll(1 * ms, 50 * ms, wanted);
  uint64_t now_ns = 1 * ms;
  uint64_t highest_ns = 0;
  while (now_ns < 1000 * ms) {
    uint64_t const sleep_ns = rule.record_empty_poll(now_ns, 50 * ms, wanted);
    EXPECT_LE(sleep_ns, (now_ns - 1 * ms) / 8);
    highest_ns = std::max(highest_ns, sleep_ns);
    now_ns += sleep_ns + 1 * us;
    rule.record_poll_end(now_ns);
  }
  EXPECT_EQ(highest_ns, 50 * ms);
}

TEST(idle, who_did_something_else_or_found_something_begins_anew) {
  backoff rule;
  EXPECT_NE(first_sleep(rule, 1 * ms, 1 * ms, true), 0u);
  EXPECT_EQ(rule.record_empty_poll(5 * ms, 50 * ms, fake_processors{}), 0u);
  EXPECT_NE(first_sleep(rule, 5 * ms + us, 1 * ms, true), 0u);
  rule.record_work();
  EXPECT_EQ(rule.record_empty_poll(6 * ms, 50 * ms, fake_processors{}), 0u);
}

TEST(idle, who_polls_two_in_turn_sleeps_for_none_while_the_other_finds_something) {
  backoff silent, busy;
  EXPECT_NE(first_sleep(silent, 1 * ms, 1 * ms, true), 0u);
  busy.record_work();
  EXPECT_EQ(silent.record_empty_poll(2 * ms + us, 50 * ms, fake_processors{true}), 0u);
}

TEST(idle, who_had_to_wait_for_a_processor_was_not_away) {
  backoff rule;
  EXPECT_EQ(rule.record_empty_poll(1 * ms, 50 * ms, fake_processors{}), 0u);
  EXPECT_EQ(rule.record_empty_poll(4 * ms, 50 * ms, fake_processors{true, 3 * ms}), 3 * ms / 8);
  rule.record_poll_end(5 * ms);
  EXPECT_EQ(rule.record_empty_poll(9 * ms, 50 * ms, fake_processors{true, 1 * ms}), 0u);
}

}  // namespace
}  // namespace tanada::o2g
