// Tests of comparisons and of arrays of words.
#include "products/shmem/wait.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>

namespace tanada::shmem {
namespace {

TEST(wait, comparisons_are_those_of_the_type) {
  EXPECT_TRUE(holds(-1, SHMEM_CMP_LT, 0));
  EXPECT_FALSE(holds(~uint64_t{0}, SHMEM_CMP_LT, uint64_t{0}));
  for (int cmp = SHMEM_CMP_EQ; cmp <= SHMEM_CMP_LE; cmp++) {
    for (int operand : {1, 2, 3}) {
      bool const expected[] = {
          operand == 2, operand != 2, operand > 2, operand >= 2, operand < 2, operand <= 2};
      EXPECT_EQ(holds(operand, cmp, 2), expected[cmp]) << operand << " " << cmp;
    }
  }
}

class words_test : public testing::Test {
 protected:
  std::array<long, 6> values{0, 5, 0, 5, 7, 5};
  std::array<int, 6> excluded{0, 1, 0, 0, 0, 0};
  std::array<size_t, 6> indices{};
};

TEST_F(words_test, those_left_out_do_not_count) {
  long const five = 5;
  words<long> const array{
      "test", values.data(), values.size(), excluded.data(), SHMEM_CMP_EQ, &five, false};
  EXPECT_FALSE(array.are_all_met());
  EXPECT_FALSE(array.is_empty());
  ASSERT_EQ(array.find_met(indices.data()), 2u);
  EXPECT_EQ(indices[0], 3u);
  EXPECT_EQ(indices[1], 5u);
  excluded = {1, 0, 1, 0, 1, 0};
  EXPECT_TRUE(array.are_all_met());
}

TEST_F(words_test, nothing_is_met_by_all_and_has_no_any) {
  long const five = 5;
  words<long> const empty_array{"test", values.data(), 0, nullptr, SHMEM_CMP_EQ, &five, false};
  EXPECT_TRUE(empty_array.is_empty() && empty_array.are_all_met());
  EXPECT_EQ(empty_array.find_any(), SIZE_MAX);
  EXPECT_EQ(empty_array.find_met(indices.data()), 0u);
  excluded.fill(1);
  words<long> const all_out{
      "test", values.data(), values.size(), excluded.data(), SHMEM_CMP_EQ, &five, false};
  EXPECT_TRUE(all_out.is_empty() && all_out.are_all_met());
  EXPECT_EQ(all_out.find_any(), SIZE_MAX);
}

TEST_F(words_test, each_may_have_its_own_value) {
  std::array<long, 6> const own_values{0, 5, 0, 5, 7, 6};
  words<long> const array{
      "test", values.data(), values.size(), nullptr, SHMEM_CMP_EQ, own_values.data(), true};
  EXPECT_FALSE(array.are_all_met());
  EXPECT_EQ(array.find_met(indices.data()), 5u);
  words<long> const first{"test", values.data(), 5, nullptr, SHMEM_CMP_EQ, own_values.data(), true};
  EXPECT_TRUE(first.are_all_met());
}

// "a series of calls to shmem_test_any must eventually return i" (9.11).
TEST_F(words_test, any_tells_of_all_in_the_end) {
  long const five = 5;
  words<long> const array{
      "test", values.data(), values.size(), nullptr, SHMEM_CMP_EQ, &five, false};
  std::set<size_t> reported;
  for (int i = 0; i < 6; i++)
    reported.insert(array.find_any());
  EXPECT_EQ(reported, (std::set<size_t>{1, 3, 5}));
}

}  // namespace
}  // namespace tanada::shmem
