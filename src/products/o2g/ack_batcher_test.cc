// When ACKs are delayed, for programs that answer at once, compute first, or only poll.

#include "products/o2g/ack_batcher.hpp"

#include <gtest/gtest.h>

namespace tanada::o2g {
namespace {

constexpr uint64_t round_ns = 10'000;

// The program sends `rounds` times, each `pause_ns` after a completion. Returns whether ACKs are
// delayed at the end.
bool delays_after(ack_batcher &batcher, int rounds, uint64_t pause_ns) {
  uint64_t now_ns = 1'000'000;
  for (int i = 0; i < rounds; i++) {
    (void)batcher.should_delay(now_ns);
    batcher.record_send(now_ns + pause_ns);
    now_ns += round_ns + pause_ns;
  }
  return batcher.should_delay(now_ns);
}

TEST(patience, comes_with_programs_that_answer_at_once) {
  ack_batcher fresh;
  EXPECT_FALSE(fresh.should_delay(1));
  ack_batcher batcher;
  EXPECT_FALSE(delays_after(batcher, 3, 500));
  EXPECT_TRUE(delays_after(batcher, 4, 500));
}

TEST(patience, does_not_come_with_programs_that_compute_first) {
  ack_batcher batcher;
  EXPECT_FALSE(delays_after(batcher, 100, 1'000'000));
}

TEST(patience, ends_for_long_when_the_program_went_away_once) {
  ack_batcher batcher;
  ASSERT_TRUE(delays_after(batcher, 100, 500));
  batcher.record_absence();
  EXPECT_FALSE(delays_after(batcher, 60, 500));
  EXPECT_TRUE(delays_after(batcher, 20, 500));
}

TEST(patience, is_no_worse_for_programs_that_only_look) {
  ack_batcher batcher;
  ASSERT_TRUE(delays_after(batcher, 8, 500));
  batcher.record_poll();
  EXPECT_TRUE(batcher.should_delay(1));
  batcher.record_poll();
  batcher.record_absence();  // no ACK was delayed
  EXPECT_TRUE(batcher.should_delay(1));
}

TEST(patience, ends_when_the_program_takes_to_computing) {
  ack_batcher batcher;
  ASSERT_TRUE(delays_after(batcher, 100, 500));
  EXPECT_FALSE(delays_after(batcher, 5, 30'000));
}

}  // namespace
}  // namespace tanada::o2g
