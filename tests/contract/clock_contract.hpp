// The contract of seams/clock/clock.hpp, as a typed suite: Subject has a `seams::clock &clock()`.
#pragma once

#include <gtest/gtest.h>
#include <tanada/status.h>

#include "seams/clock/clock.hpp"

namespace tanada::contract {

template <class Subject>
class clock_contract : public testing::Test {
 protected:
  Subject subject_;
};
TYPED_TEST_SUITE_P(clock_contract);

TYPED_TEST_P(clock_contract, never_goes_back_and_is_never_0) {
  seams::clock &time = this->subject_.clock();
  uint64_t last = time.now_ns();
  EXPECT_NE(last, 0u);
  for (int i = 0; i < 1000; i++) {
    uint64_t const now = time.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TYPED_TEST_P(clock_contract, sleeping_reaches_any_deadline) {
  seams::clock &time = this->subject_.clock();
  uint64_t const deadline = seams::deadline_after(time.now_ns(), 5000000);
  int sleeps = 0;
  for (; time.now_ns() < deadline && sleeps < 10000; sleeps++)
    time.sleep_ns(500000);
  EXPECT_GE(time.now_ns(), deadline);
  EXPECT_GE(sleeps, 1);
}

TYPED_TEST_P(clock_contract, a_sleep_of_nothing_returns) {
  this->subject_.clock().sleep_ns(0);
  EXPECT_LT(this->subject_.clock().now_ns(), TND_NO_DEADLINE);
}

TYPED_TEST_P(clock_contract, the_wall_clock_runs) {
  seams::clock &time = this->subject_.clock();
  uint64_t const before = time.wall_ns();
  EXPECT_NE(before, 0u);
  time.sleep_ns(2'000'000);
  EXPECT_GT(time.wall_ns(), before);
}

REGISTER_TYPED_TEST_SUITE_P(clock_contract,
                            the_wall_clock_runs,
                            never_goes_back_and_is_never_0,
                            sleeping_reaches_any_deadline,
                            a_sleep_of_nothing_returns);

}  // namespace tanada::contract
