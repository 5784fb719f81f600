#include "core/base/result.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tanada {
namespace {

TEST(result, holds_a_value) {
  result<std::string> created = std::string{"rice"};
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created.value(), "rice");
  EXPECT_EQ(created.error(), status::ok);
}

TEST(result, holds_an_error) {
  result<std::string> created = status::no_space;
  EXPECT_FALSE(created.ok());
  EXPECT_EQ(created.error(), status::no_space);
}

TEST(result, moves_what_cannot_be_copied) {
  result<std::unique_ptr<int>> created = std::make_unique<int>(7);
  std::unique_ptr<int> value = std::move(created).value();
  EXPECT_EQ(*value, 7);
}

TEST(result, value_of_an_error_is_our_bug) {
  EXPECT_DEATH(
      {
        result<int> made = status::io;
        made.value() = 1;
      },
      "bug: ok\\(\\)");
}

TEST(result, ok_is_no_error) {
  EXPECT_DEATH((void)result<int>{status::ok}, "bug: error != status::ok");
}

status first_failure(status first, status second, int &steps) {
  steps++;
  TND_TRY(first);
  steps++;
  TND_TRY(second);
  steps++;
  return status::ok;
}

TEST(result, a_constant_result_can_be_read) {
  const result<std::string> name = std::string{"rice"};
  EXPECT_EQ(name.value(), "rice");
}

result<size_t> length_of(result<std::string> name) {
  TND_ASSIGN(const std::string text, name);
  size_t length = 0;
  TND_ASSIGN(length, result<size_t>{text.size()});
  return length;
}

TEST(result, assign_takes_the_value_or_returns_the_error) {
  EXPECT_EQ(length_of(std::string{"rice"}).value(), 4u);
  EXPECT_EQ(length_of(status::no_space).error(), status::no_space);
}

TEST(result, try_returns_the_first_failure) {
  int steps = 0;
  EXPECT_EQ(first_failure(status::io, status::ok, steps), status::io);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(first_failure(status::ok, status::busy, steps), status::busy);
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(first_failure(status::ok, status::ok, steps), status::ok);
  EXPECT_EQ(steps, 6);
}

}  // namespace
}  // namespace tanada
