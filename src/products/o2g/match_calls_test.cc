// Goal: every call of kernel/o2g/match.h returns what a search of two lists returns, also while
// tables cannot grow and with more patterns than classes. Method: random calls of several shapes.

#include <gtest/gtest.h>

#include <deque>

#include "products/o2g/match_fixture.hpp"

namespace tanada::o2g {
namespace {

class match_calls : public testing::TestWithParam<match_trial_shape> {};

TEST_P(match_calls, agree_with_a_search_of_two_lists) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    random_numbers random{seed * 0x9E3779B97F4A7C15u};
    match_trial trial{random, GetParam()};
    for (int step = 0; step < 3000; step++) {
      const char *const difference = trial.step();
      ASSERT_EQ(difference, nullptr)
          << difference << " differs: seed " << seed << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(shapes,
                         match_calls,
                         testing::Values(match_trial_shape{2, 2, 1},
                                         match_trial_shape{16, 3, 2},
                                         match_trial_shape{256, 200, 2},
                                         match_trial_shape{256, 4, 4},
                                         match_trial_shape{64, 2, 12}));

TEST(match_calls, tables_that_could_not_grow_grow_later) {
  std::deque<o2g_posted_entry> posts;
  o2g_matcher tested;
  o2g_matcher_init(&tested);
  size_t const limit = tested.chain_count_max;
  tested.chain_count_max = O2G_MATCH_FIRST_CHAIN_COUNT;
  auto const post = [&](uint64_t count) {
    while (posts.size() < count) {
      posts.emplace_back().pattern = {posts.size(), 0, 1};
      o2g_match_add_posted(&tested, &posts.back());
    }
  };
  post(1000);
  EXPECT_EQ(tested.classes[0].posted.mask, O2G_MATCH_FIRST_CHAIN_COUNT - 1u);
  tested.chain_count_max = limit;
  post(1000 + O2G_MATCH_FIRST_CHAIN_COUNT);
  EXPECT_GE(tested.classes[0].posted.mask, 1000u);
  for (uint64_t i = 0; i < posts.size(); i++) {
    o2g_match_key const key{posts[i].pattern.tag, 1};
    ASSERT_EQ(o2g_match_find_posted(&tested, &key), &posts[i]);
  }
  o2g_matcher_fini(&tested);
}

TEST(match_calls, an_entry_without_a_class_is_found_before_newer_entries_with_one) {
  o2g_matcher tested;
  o2g_matcher_init(&tested);
  std::deque<o2g_posted_entry> posts;
  auto const post = [&](uint64_t ignore) {
    posts.emplace_back().pattern = {0, ignore, 1};
    o2g_match_add_posted(&tested, &posts.back());
    return &posts.back();
  };
  for (uint64_t i = 0; i < O2G_MATCH_CLASS_COUNT_MAX; i++)
    o2g_match_remove_posted(&tested, post(uint64_t{1} << i));
  o2g_posted_entry *const unclassed = post(uint64_t{1} << O2G_MATCH_CLASS_COUNT_MAX);
  EXPECT_EQ(unclassed->class_index, O2G_MATCH_CLASS_COUNT_MAX);
  o2g_posted_entry *const newer = post(1);
  EXPECT_EQ(newer->class_index, 0);
  o2g_match_key const key{0, 1};
  EXPECT_EQ(o2g_match_find_posted(&tested, &key), unclassed);
  o2g_match_remove_posted(&tested, unclassed);
  EXPECT_EQ(o2g_match_find_posted(&tested, &key), newer);
  o2g_matcher_fini(&tested);
}

}  // namespace
}  // namespace tanada::o2g
