// The limits of the memory of clients' rings.
#include "products/poold/ring_budget.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tanada::poold {
namespace {

constexpr uint64_t ring_size = backends::ring_memory::size;

TEST(ring_budget, gives_one_owner_at_most_half_of_the_rings) {
  ring_budget budget{0};
  ASSERT_EQ(budget.count_max(), ring_budget::count_min);
  std::vector<std::unique_ptr<ring_budget::share>> shares;
  for (size_t i = 0; i < budget.count_max() / 2; i++) {
    shares.push_back(budget.acquire("key a"));
    ASSERT_NE(shares.back(), nullptr) << i;
  }
  EXPECT_EQ(budget.acquire("key a"), nullptr);
  EXPECT_EQ(budget.size(), budget.count_max() / 2 * ring_size);
  for (size_t i = 0; i < budget.count_max() / 2; i++) {
    shares.push_back(budget.acquire("key b"));
    ASSERT_NE(shares.back(), nullptr) << i;
  }
  EXPECT_EQ(budget.acquire("key c"), nullptr) << "all rings are in use";
}

TEST(ring_budget, has_rings_again_after_a_share_was_destroyed) {
  ring_budget budget{0};
  std::vector<std::unique_ptr<ring_budget::share>> shares;
  for (size_t i = 0; i < budget.count_max() / 2; i++)
    shares.push_back(budget.acquire("key a"));
  shares.pop_back();
  EXPECT_NE(budget.acquire("key a"), nullptr);
  shares.clear();
  EXPECT_EQ(budget.size(), 0u);
}

TEST(ring_budget, takes_a_bounded_part_of_a_large_pool) {
  constexpr uint64_t capacity = uint64_t{64} << 30;
  ring_budget const budget{capacity};
  EXPECT_LE(budget.count_max() * ring_size, capacity / ring_budget::pool_part);
  EXPECT_GT(budget.count_max(), 10'000u);
}

}  // namespace
}  // namespace tanada::poold
