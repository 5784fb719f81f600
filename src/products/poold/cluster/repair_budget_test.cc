#include "products/poold/cluster/repair_budget.hpp"

#include <gtest/gtest.h>

namespace tanada::poold {
namespace {

constexpr uint64_t step_ns = 1'000'000, object_size = 1 << 20;

// Bytes that are spent in a second, in objects of 1 MiB. `is_busy`: clients change something.
uint64_t spend_for_a_second(repair_budget &budget, bool is_busy) {
  uint64_t const before = budget.spent_size();
  for (uint64_t now_ns = 1'000 * step_ns; now_ns < 2'000 * step_ns; now_ns += step_ns) {
    if (is_busy)
      budget.note_change(now_ns);
    for (int i = 0; i < 10 && budget.is_available(now_ns); i++)
      budget.spend(object_size);
  }
  return budget.spent_size() - before;
}

TEST(repair_budget, is_its_bandwidth) {
  for (bool const is_busy : {false, true}) {
    repair_budget budget{100 * object_size};
    EXPECT_NEAR(double(spend_for_a_second(budget, is_busy)), 110e6, 15e6);
  }
}

TEST(repair_budget, is_limited_by_default_while_clients_change_something) {
  repair_budget idle{0}, busy{0};
  EXPECT_EQ(spend_for_a_second(idle, false), 10'000 * object_size);
  EXPECT_NEAR(
      double(spend_for_a_second(busy, true)), double(repair_budget::shared_bandwidth), 10e6);
}

TEST(repair_budget, waits_after_an_object_that_is_larger_than_a_burst) {
  repair_budget budget{100 * object_size};
  ASSERT_TRUE(budget.is_available(1'000 * step_ns));
  budget.spend(200 * object_size);
  EXPECT_FALSE(budget.is_available(2'000 * step_ns));
  EXPECT_TRUE(budget.is_available(3'100 * step_ns));
}

}  // namespace
}  // namespace tanada::poold
