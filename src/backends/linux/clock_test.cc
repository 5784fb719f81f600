#include "seams/clock/clock.hpp"

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <tanada/device/detail/simt/host/executor.hpp>

namespace tanada::backends {
namespace {

TEST(deadline_after, adds) {
  EXPECT_EQ(seams::deadline_after(5, 7), 12u);
}

TEST(deadline_after, keeps_no_deadline) {
  EXPECT_EQ(seams::deadline_after(5, TND_NO_DEADLINE), TND_NO_DEADLINE);
  EXPECT_EQ(seams::deadline_after(0, TND_NO_DEADLINE), TND_NO_DEADLINE);
}

TEST(deadline_after, never_overflows_and_never_becomes_no_deadline) {
  EXPECT_EQ(seams::deadline_after(5, TND_NO_DEADLINE - 1), TND_NO_DEADLINE - 1);
  EXPECT_EQ(seams::deadline_after(5, TND_NO_DEADLINE - 5), TND_NO_DEADLINE - 1);
  EXPECT_EQ(seams::deadline_after(5, TND_NO_DEADLINE - 6), TND_NO_DEADLINE - 1);
  EXPECT_EQ(seams::deadline_after(5, TND_NO_DEADLINE - 7), TND_NO_DEADLINE - 2);
}

TEST(monotonic_clock, has_the_time_base_of_the_host_executor) {
  uint64_t const before = seams::monotonic_clock().now_ns();
  uint64_t const executor = simt::host::now_ns();
  uint64_t const after = seams::monotonic_clock().now_ns();
  EXPECT_LE(before, executor);
  EXPECT_LE(executor, after);
}

}  // namespace
}  // namespace tanada::backends
