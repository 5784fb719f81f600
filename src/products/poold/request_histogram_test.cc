#include "products/poold/request_histogram.hpp"

#include <gtest/gtest.h>

namespace tanada::poold {
namespace {

TEST(request_histogram, values_are_counted_by_their_upper_bounds) {
  request_histogram counted;
  size_t const slot = request_histogram::slot_of(uint16_t(wire::pool::kind::get));
  counted.add(uint16_t(wire::pool::kind::get), 5'000, 0);
  counted.add(uint16_t(wire::pool::kind::get), 5'001, 4096);
  counted.add(uint16_t(wire::pool::kind::get), uint64_t{1} << 40, uint64_t{1} << 40);
  EXPECT_EQ(counted.durations[slot].count(0), 1U);
  EXPECT_EQ(counted.durations[slot].count(1), 1U);
  EXPECT_EQ(counted.durations[slot].count(request_histogram::duration_bounds_ns.size()), 1U);
  EXPECT_EQ(counted.durations[slot].sum(), 10'001 + (uint64_t{1} << 40));
  EXPECT_EQ(counted.sizes[slot].count(1), 1U);
  EXPECT_EQ(counted.sizes[slot].count(request_histogram::size_bounds.size()), 1U);
}

TEST(request_histogram, requests_without_a_name_share_one) {
  size_t const other = request_histogram::names.size();
  EXPECT_EQ(request_histogram::slot_of(uint16_t(wire::pool::kind::list)), other);
  EXPECT_EQ(request_histogram::slot_of(0xffff), other);
  EXPECT_STREQ(request_histogram::name_of(other), "other");
  EXPECT_STREQ(
      request_histogram::name_of(request_histogram::slot_of(uint16_t(wire::pool::kind::put))),
      "put");
}

}  // namespace
}  // namespace tanada::poold
