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
    for (int left : {1, 2, 3}) {
      bool const expected[] = {left == 2, left != 2, left > 2, left >= 2, left < 2, left <= 2};
      EXPECT_EQ(holds(left, cmp, 2), expected[cmp]) << left << " " << cmp;
    }
  }
}

class words_test : public testing::Test {
 protected:
  std::array<long, 6> values{0, 5, 0, 5, 7, 5};
  std::array<int, 6> left_out{0, 1, 0, 0, 0, 0};
  std::array<size_t, 6> indices{};
};

TEST_F(words_test, those_left_out_do_not_count) {
  long const five = 5;
  words<long> const of{"test",       values.data(), values.size(), left_out.data(),
                       SHMEM_CMP_EQ, &five,         false};
  EXPECT_FALSE(of.all());
  EXPECT_FALSE(of.is_empty());
  ASSERT_EQ(of.some(indices.data()), 2u);
  EXPECT_EQ(indices[0], 3u);
  EXPECT_EQ(indices[1], 5u);
  left_out = {1, 0, 1, 0, 1, 0};
  EXPECT_TRUE(of.all());
}

TEST_F(words_test, nothing_is_met_by_all_and_has_no_any) {
  long const five = 5;
  words<long> const none{"test", values.data(), 0, nullptr, SHMEM_CMP_EQ, &five, false};
  EXPECT_TRUE(none.is_empty() && none.all());
  EXPECT_EQ(none.any(), SIZE_MAX);
  EXPECT_EQ(none.some(indices.data()), 0u);
  left_out.fill(1);
  words<long> const all_out{"test",       values.data(), values.size(), left_out.data(),
                            SHMEM_CMP_EQ, &five,         false};
  EXPECT_TRUE(all_out.is_empty() && all_out.all());
  EXPECT_EQ(all_out.any(), SIZE_MAX);
}

TEST_F(words_test, each_may_have_its_own_value) {
  std::array<long, 6> const own{0, 5, 0, 5, 7, 6};
  words<long> const of{"test",       values.data(), values.size(), nullptr,
                       SHMEM_CMP_EQ, own.data(),    true};
  EXPECT_FALSE(of.all());
  EXPECT_EQ(of.some(indices.data()), 5u);
  words<long> const first{"test", values.data(), 5, nullptr, SHMEM_CMP_EQ, own.data(), true};
  EXPECT_TRUE(first.all());
}

// "a series of calls to shmem_test_any must eventually return i" (9.11).
TEST_F(words_test, any_tells_of_all_in_the_end) {
  long const five = 5;
  words<long> const of{"test", values.data(), values.size(), nullptr, SHMEM_CMP_EQ, &five, false};
  std::set<size_t> told;
  for (int i = 0; i < 6; i++)
    told.insert(of.any());
  EXPECT_EQ(told, (std::set<size_t>{1, 3, 5}));
}

}  // namespace
}  // namespace tanada::shmem
