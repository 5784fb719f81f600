#include "core/base/log_limit.hpp"

#include <gtest/gtest.h>

namespace tanada {
namespace {

TEST(log_limit, admits_the_first_and_then_one_an_interval) {
  log_limit limit{3};
  uint64_t now_ns = 5;
  for (int i = 0; i < 3; i++)
    EXPECT_TRUE(limit.admit(now_ns++));
  for (int i = 0; i < 100; i++)
    EXPECT_FALSE(limit.admit(now_ns++));
  now_ns += log_limit::interval_ns;
  EXPECT_TRUE(limit.admit(now_ns));
  EXPECT_EQ(limit.take_suppressed_count(), 100u);
  EXPECT_EQ(limit.take_suppressed_count(), 0u);
  EXPECT_FALSE(limit.admit(now_ns + log_limit::interval_ns - 1));
  EXPECT_TRUE(limit.admit(now_ns + log_limit::interval_ns));
  EXPECT_EQ(limit.take_suppressed_count(), 1u);
}

}  // namespace
}  // namespace tanada
