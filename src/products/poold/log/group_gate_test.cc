#include "products/poold/log/group_gate.hpp"

#include <gtest/gtest.h>

namespace tanada::pool {
namespace {

constexpr uint64_t us = 1000, ms = 1000 * us;

TEST(group_gate, a_lone_client_never_waits) {
  group_gate gate;
  for (uint64_t now = ms; now < 100 * ms; now += 3 * ms) {
    ASSERT_TRUE(gate.may_begin(now, 1));
    gate.begin(now);
    gate.end(now + 2 * ms, 1);
  }
}

TEST(group_gate, clients_of_two_groups_share_the_next_sync) {
  group_gate gate;
  ASSERT_TRUE(gate.may_begin(ms, 1));  // the first of sixteen
  gate.begin(ms);
  gate.end(3 * ms, 16);
  EXPECT_FALSE(gate.may_begin(3 * ms, 15));
  EXPECT_FALSE(gate.may_begin(3 * ms + 50 * us, 15));
  EXPECT_TRUE(gate.may_begin(3 * ms + 60 * us, 16));
}

TEST(group_gate, who_does_not_come_again_is_not_waited_for) {
  group_gate gate;
  gate.begin(ms);
  gate.end(9 * ms, 16);
  EXPECT_FALSE(gate.may_begin(9 * ms, 15));
  EXPECT_FALSE(gate.may_begin(9 * ms + 900 * us, 15));
  EXPECT_TRUE(gate.may_begin(10 * ms, 15));  // an eighth of the last group's time without arrivals
}

TEST(group_gate, a_group_waits_for_half_of_the_last_one_at_most) {
  group_gate gate;
  gate.begin(0);
  gate.end(8 * ms, 100);
  size_t waiting = 1;
  for (uint64_t now = 8 * ms; now < 12 * ms; now += 500 * us)
    EXPECT_FALSE(gate.may_begin(now, waiting++)) << now;
  EXPECT_TRUE(gate.may_begin(12 * ms, waiting));
}

TEST(group_gate, after_a_pause_nobody_is_waited_for) {
  group_gate gate;
  gate.begin(ms);
  gate.end(2 * ms, 16);
  EXPECT_TRUE(gate.may_begin(50 * ms, 1));
}

}  // namespace
}  // namespace tanada::pool
