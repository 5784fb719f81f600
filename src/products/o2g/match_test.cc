// Goal: the matcher finds the same entries as a linear search in MPI's order. Method: random
// receives and messages of several shapes, against a model.

#include "products/o2g/match.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>

#include "products/o2g/match_fixture.hpp"

namespace tanada::o2g {
namespace {

struct posted : posted_entry {
  uint64_t name = 0;
};
struct arrived : arrived_entry {
  uint64_t name = 0;
};

// MPI's rule (MPI standard, section 3.5, order): search each queue from its oldest entry.
struct model {
  std::list<posted *> posts;
  std::list<arrived *> arrivals;

  posted *take_posted(const match_key &key) {
    auto const it =
        std::ranges::find_if(posts, [&](posted *entry) { return matches(entry->pattern, key); });
    return it == posts.end() ? nullptr : *it;
  }
  arrived *take_arrived(const match_pattern &pattern) {
    auto const it = std::ranges::find_if(
        arrivals, [&](arrived *entry) { return matches(pattern, entry->key); });
    return it == arrivals.end() ? nullptr : *it;
  }
};

struct shape {
  uint64_t tags;
  uint32_t sources;
  size_t masks;  // number of distinct `ignore` values; above match_class_count_max / 2 there are
                 // receives without a class
};

class against_a_model : public testing::TestWithParam<shape> {};

TEST_P(against_a_model, finds_what_walking_would) {
  shape const params = GetParam();
  for (uint64_t seed = 1; seed <= 60; seed++) {
    SCOPED_TRACE(seed);
    random_numbers random{seed * 0x9E3779B97F4A7C15u};
    std::deque<posted> posts;
    std::deque<arrived> arrivals;
    matcher tested;
    model expected;
    for (int step = 0; step < 2000; step++) {
      uint64_t const action = random.below(100);
      if (action < 45) {
        posted &entry = posts.emplace_back();
        entry.pattern = {
            random.below(params.tags),
            (uint64_t{1} << random.below(params.masks)) - 1,
            random.below(3) == 0 ? any_peer : peer_index(random.below(params.sources))};
        arrived *const right = expected.take_arrived(entry.pattern);
        ASSERT_EQ(tested.find_arrived(entry.pattern), right);
        if (right != nullptr) {
          tested.remove(*right);
          expected.arrivals.remove(right);
        } else {
          tested.add(entry);
          expected.posts.push_back(&entry);
        }
      } else if (action < 95) {
        arrived &entry = arrivals.emplace_back();
        entry.key = {random.below(params.tags), peer_index(random.below(params.sources))};
        posted *const right = expected.take_posted(entry.key);
        ASSERT_EQ(tested.find_posted(entry.key), right);
        if (right != nullptr) {
          tested.remove(*right);
          expected.posts.remove(right);
        } else {
          tested.add(entry);
          expected.arrivals.push_back(&entry);
        }
      } else if (!expected.posts.empty()) {
        posted *const canceled =
            *std::next(expected.posts.begin(), long(random.below(expected.posts.size())));
        tested.remove(*canceled);
        expected.posts.remove(canceled);
      }
      ASSERT_EQ(tested.posted_count(), expected.posts.size());
      ASSERT_EQ(tested.arrived_count(), expected.arrivals.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    shapes,
    against_a_model,
    testing::Values(shape{2, 2, 1}, shape{8, 3, 2}, shape{1000, 4, 4}, shape{64, 2, 12}));

TEST(matcher, walks_in_order_and_lets_the_walker_remove) {
  matcher tested;
  std::deque<arrived> arrivals;
  for (uint64_t i = 0; i < 5; i++) {
    arrived &entry = arrivals.emplace_back();
    entry.name = i;
    entry.key = {i, 0};
    tested.add(entry);
  }
  std::vector<uint64_t> visited;
  tested.find_arrived_if([&](arrived_entry &entry) {
    visited.push_back(static_cast<arrived &>(entry).name);
    tested.remove(entry);
    return false;
  });
  EXPECT_EQ(visited, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(tested.arrived_count(), 0u);
}

TEST(matcher, lets_go_of_entries_when_it_ends) {
  posted entry;
  {
    matcher tested;
    tested.add(entry);
  }
  EXPECT_FALSE(entry.is_queued);
  EXPECT_EQ(entry.order.next, &entry.order);
}

}  // namespace
}  // namespace tanada::o2g
