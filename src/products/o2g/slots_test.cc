#include "products/o2g/slots.hpp"

#include <gtest/gtest.h>

namespace tanada::o2g {
namespace {

TEST(slots, finds_by_number_once) {
  slots<int> tested;
  int a = 1, b = 2;
  uint64_t const at_a = tested.add(&a), at_b = tested.add(&b);
  EXPECT_EQ(tested.find(at_a), &a);
  EXPECT_EQ(tested.take(at_b), &b);
  EXPECT_EQ(tested.take(at_b), nullptr);
  uint64_t const again = tested.add(&b);
  EXPECT_NE(again, at_b);
  EXPECT_EQ(tested.find(at_b), nullptr);
  EXPECT_EQ(tested.find(again), &b);
  EXPECT_EQ(tested.find(uint64_t{1} << 32 | 99), nullptr);
}

// A program with one request out at a time uses one slot for ever.
TEST(slots, have_no_number_0_when_the_generations_begin_anew) {
  slots<int> tested{~uint32_t{0}};
  int what = 1;
  for (int i = 0; i < 3; i++) {
    uint64_t const number = tested.add(&what);
    EXPECT_NE(number, 0u);
    EXPECT_EQ(tested.take(number), &what);
  }
}

}  // namespace
}  // namespace tanada::o2g
