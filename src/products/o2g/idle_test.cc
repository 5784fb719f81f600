// Goal: who waits in vain sleeps when the rule says, and no longer than it says. Method: polls at
// made-up times.
#include "products/o2g/idle.hpp"

#include <gtest/gtest.h>

namespace tanada::o2g {
namespace {

constexpr uint64_t us = 1000, ms = 1000 * us;

struct made_up {
  bool is_short = true;
  uint64_t just_waited_ns = 0;
  bool are_short(uint64_t) const {
    return is_short;
  }
  uint64_t waited_ns() const {
    return just_waited_ns;
  }
};

// Polls each microsecond from `start_ns` for `span_ns`; when the first sleep came, 0: none.
uint64_t first_sleep(idle_rule &rule, uint64_t start_ns, uint64_t span_ns, bool is_wanted) {
  for (uint64_t now_ns = start_ns; now_ns < start_ns + span_ns; now_ns += us)
    if (rule.vain(now_ns, 50 * ms, made_up{is_wanted}) != 0)
      return now_ns;
  return 0;
}

TEST(idle, spins_long_on_a_free_processor_and_briefly_on_one_that_others_want) {
  idle_rule alone, among_others;
  EXPECT_EQ(first_sleep(alone, 1 * ms, 20 * ms, false), 11 * ms);
  EXPECT_EQ(first_sleep(among_others, 1 * ms, 20 * ms, true), 1 * ms + 50 * us);
}

// The system takes the processor for a moment now and then.
TEST(idle, a_short_pause_ends_no_long_wait) {
  idle_rule rule;
  EXPECT_EQ(first_sleep(rule, 1 * ms, 2 * ms, false), 0u);
  EXPECT_EQ(first_sleep(rule, 3 * ms + 20 * us, 20 * ms, false), 11 * ms + 20 * us - 20 * us);
}

// And who computes a little between its polls does not wait.
TEST(idle, regular_pauses_are_no_wait) {
  idle_rule rule;
  for (uint64_t now_ns = 1 * ms; now_ns < 500 * ms; now_ns += 20 * us)
    ASSERT_EQ(rule.vain(now_ns, 50 * ms, made_up{}), 0u);
}

TEST(idle, sleeps_an_eighth_of_the_wait_within_the_limit) {
  idle_rule rule;
  made_up const wanted;
  (void)rule.vain(1 * ms, 50 * ms, wanted);
  uint64_t now_ns = 1 * ms;
  uint64_t highest_ns = 0;
  while (now_ns < 1000 * ms) {
    uint64_t const sleep_ns = rule.vain(now_ns, 50 * ms, wanted);
    EXPECT_LE(sleep_ns, (now_ns - 1 * ms) / 8);
    highest_ns = std::max(highest_ns, sleep_ns);
    now_ns += sleep_ns + 1 * us;
    rule.left(now_ns);
  }
  EXPECT_EQ(highest_ns, 50 * ms);
}

TEST(idle, who_did_something_else_or_found_something_begins_anew) {
  idle_rule rule;
  EXPECT_NE(first_sleep(rule, 1 * ms, 1 * ms, true), 0u);
  EXPECT_EQ(rule.vain(5 * ms, 50 * ms, made_up{}), 0u);
  EXPECT_NE(first_sleep(rule, 5 * ms + us, 1 * ms, true), 0u);
  rule.found();
  EXPECT_EQ(rule.vain(6 * ms, 50 * ms, made_up{}), 0u);
}

TEST(idle, who_polls_two_in_turn_sleeps_for_none_while_the_other_finds_something) {
  idle_rule silent, busy;
  EXPECT_NE(first_sleep(silent, 1 * ms, 1 * ms, true), 0u);
  busy.found();
  EXPECT_EQ(silent.vain(2 * ms + us, 50 * ms, made_up{true}), 0u);
}

TEST(idle, who_had_to_wait_for_a_processor_was_not_away) {
  idle_rule rule;
  EXPECT_EQ(rule.vain(1 * ms, 50 * ms, made_up{}), 0u);
  EXPECT_EQ(rule.vain(4 * ms, 50 * ms, made_up{true, 3 * ms}), 3 * ms / 8);
  rule.left(5 * ms);
  EXPECT_EQ(rule.vain(9 * ms, 50 * ms, made_up{true, 1 * ms}), 0u);
}

}  // namespace
}  // namespace tanada::o2g
