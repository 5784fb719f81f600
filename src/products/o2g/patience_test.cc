#include "products/o2g/patience.hpp"

#include <gtest/gtest.h>

namespace tanada::o2g {
namespace {

constexpr uint64_t round_ns = 10'000;

// The program answers `rounds` times what it was told, `pause_ns` later. Whether acknowledgements
// wait at the end.
bool after(patience &of, int rounds, uint64_t pause_ns) {
  uint64_t now_ns = 1'000'000;
  for (int i = 0; i < rounds; i++) {
    (void)of.waits(now_ns);
    of.sent(now_ns + pause_ns);
    now_ns += round_ns + pause_ns;
  }
  return of.waits(now_ns);
}

TEST(patience, comes_with_programs_that_answer_at_once) {
  patience fresh;
  EXPECT_FALSE(fresh.waits(1));
  patience of;
  EXPECT_FALSE(after(of, 3, 500));
  EXPECT_TRUE(after(of, 4, 500));
}

TEST(patience, does_not_come_with_programs_that_compute_first) {
  patience of;
  EXPECT_FALSE(after(of, 100, 1'000'000));
}

TEST(patience, ends_for_long_when_the_program_went_away_once) {
  patience of;
  ASSERT_TRUE(after(of, 100, 500));
  of.left();
  EXPECT_FALSE(after(of, 60, 500));
  EXPECT_TRUE(after(of, 20, 500));
}

TEST(patience, is_no_worse_for_programs_that_only_look) {
  patience of;
  ASSERT_TRUE(after(of, 8, 500));
  of.looked();
  EXPECT_TRUE(of.waits(1));
  of.looked();
  of.left();  // nothing waited
  EXPECT_TRUE(of.waits(1));
}

TEST(patience, ends_when_the_program_takes_to_computing) {
  patience of;
  ASSERT_TRUE(after(of, 100, 500));
  EXPECT_FALSE(after(of, 5, 30'000));
}

}  // namespace
}  // namespace tanada::o2g
