#include "onesided/swap/need_history.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace tanada::comex::swap {
namespace {

// Wrong ones of the last round of many; 'a': all was needed.
int mistakes(std::string_view round) {
  need_history history;
  int found = 0;
  for (int i = 0; i < 20; i++) {
    found = 0;
    for (char const each : round) {
      found += history.expects_all() != (each == 'a');
      history.learn(each == 'a');
    }
  }
  return found;
}

TEST(need_history, nothing_is_expected_of_the_unknown) {
  EXPECT_FALSE(need_history{}.expects_all());
}

TEST(need_history, rounds_are_known) {
  for (std::string_view const round :
       {"a", "-", "a-", "a--", "aa--", "a----", "a-a--", "aaaaaa-", "------a", "aaa---"})
    EXPECT_EQ(mistakes(round), 0) << round;
}

TEST(need_history, what_changes_is_learnt_anew) {
  need_history history;
  for (int i = 0; i < 100; i++)
    history.learn(true);
  EXPECT_TRUE(history.expects_all());
  for (int i = 0; i < 10; i++)
    history.learn(false);
  EXPECT_FALSE(history.expects_all());
  for (int i = 0; i < 10; i++)
    history.learn(true);
  EXPECT_TRUE(history.expects_all());
}

}  // namespace
}  // namespace tanada::comex::swap
