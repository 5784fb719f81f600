#include "core/base/checked.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace tanada {
namespace {

TEST(checked, add_tells_overflow) {
  uint64_t sum = 0;
  EXPECT_TRUE(checked_add<uint64_t>(UINT64_MAX - 1, 1, sum));
  EXPECT_EQ(sum, UINT64_MAX);
  EXPECT_FALSE(checked_add<uint64_t>(UINT64_MAX, 1, sum));
}

TEST(checked, multiply_tells_overflow) {
  uint32_t product = 0;
  EXPECT_TRUE(checked_multiply<uint32_t>(65535, 65537, product));
  EXPECT_EQ(product, UINT32_MAX);
  EXPECT_FALSE(checked_multiply<uint32_t>(65536, 65536, product));
}

TEST(checked, align_up) {
  uint64_t aligned = 0;
  EXPECT_TRUE(checked_align_up<uint64_t>(0, 4096, aligned));
  EXPECT_EQ(aligned, 0u);
  EXPECT_TRUE(checked_align_up<uint64_t>(1, 4096, aligned));
  EXPECT_EQ(aligned, 4096u);
  EXPECT_TRUE(checked_align_up<uint64_t>(4096, 4096, aligned));
  EXPECT_EQ(aligned, 4096u);
  EXPECT_FALSE(checked_align_up<uint64_t>(UINT64_MAX, 4096, aligned));
}

TEST(checked, align_up_of_narrow_types) {
  uint8_t aligned = 0;
  EXPECT_TRUE(checked_align_up<uint8_t>(239, 16, aligned));
  EXPECT_EQ(aligned, 240);
  EXPECT_FALSE(checked_align_up<uint8_t>(241, 16, aligned));
}

TEST(checked, range_fits) {
  EXPECT_TRUE(range_fits<uint64_t>(0, 10, 10));
  EXPECT_TRUE(range_fits<uint64_t>(10, 0, 10));
  EXPECT_FALSE(range_fits<uint64_t>(1, 10, 10));
  EXPECT_FALSE(range_fits<uint64_t>(UINT64_MAX, 2, 10));
  EXPECT_FALSE(range_fits<uint64_t>(2, UINT64_MAX, 10));
}

}  // namespace
}  // namespace tanada
