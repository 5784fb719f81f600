// Tests of the predictor on repeated patterns.
#include "onesided/swap/residency_predictor.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace tanada::onesided::swap {
namespace {

// Wrong predictions in the last of many rounds; 'a': all memory was used.
int mistakes(std::string_view round) {
  residency_predictor history;
  int mistake_count = 0;
  for (int i = 0; i < 20; i++) {
    mistake_count = 0;
    for (char const step : round) {
      mistake_count += history.expects_full_use() != (step == 'a');
      history.learn(step == 'a');
    }
  }
  return mistake_count;
}

TEST(need_history, nothing_is_expected_of_the_unknown) {
  EXPECT_FALSE(residency_predictor{}.expects_full_use());
}

TEST(need_history, rounds_are_known) {
  for (std::string_view const round :
       {"a", "-", "a-", "a--", "aa--", "a----", "a-a--", "aaaaaa-", "------a", "aaa---"})
    EXPECT_EQ(mistakes(round), 0) << round;
}

TEST(need_history, what_changes_is_learnt_anew) {
  residency_predictor history;
  for (int i = 0; i < 100; i++)
    history.learn(true);
  EXPECT_TRUE(history.expects_full_use());
  for (int i = 0; i < 10; i++)
    history.learn(false);
  EXPECT_FALSE(history.expects_full_use());
  for (int i = 0; i < 10; i++)
    history.learn(true);
  EXPECT_TRUE(history.expects_full_use());
}

}  // namespace
}  // namespace tanada::onesided::swap
