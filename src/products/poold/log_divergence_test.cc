// Goal: a durable removal removes all objects that the log has under the name, also after a failure
// of the log. Changes of objects that are not in the log are not reported as durable. Method:
// failed and logged changes, in all orders that make a difference.
#include "products/poold/durable.hpp"

#include <gtest/gtest.h>

namespace tanada::poold {
namespace {

using kind = change::kind;

change put(const std::string &name, uint64_t version, uint64_t before) {
  return {.type = kind::put,
          .version = version,
          .object = {},
          .namespace_name = "s",
          .name = name,
          .old_name = {},
          .replaced_version = before};
}
change removal(const std::string &name, uint64_t version) {
  return {.type = kind::remove,
          .version = version,
          .object = {},
          .namespace_name = "s",
          .name = name,
          .old_name = {}};
}
change renaming(const std::string &name,
                const std::string &new_name,
                uint64_t version,
                uint64_t before) {
  return {.type = kind::rename,
          .version = version,
          .object = {},
          .namespace_name = "s",
          .name = new_name,
          .old_name = name,
          .replaced_version = before};
}

class pool_gaps : public testing::Test {
 protected:
  // Record a logged change. Returns the versions whose removal must follow.
  std::vector<uint64_t> logged(const change &update,
                               status expected = status::ok,
                               uint64_t order = 0) {
    std::vector<change> to_follow;
    EXPECT_EQ(divergence_.record_logged({update}, order != 0 ? order : ++order_, to_follow),
              expected);
    std::vector<uint64_t> versions;
    for (const change &removal : to_follow)
      versions.push_back(removal.version);
    return versions;
  }
  std::vector<uint64_t> following(std::vector<change> removals, uint64_t order) {
    divergence_.begin_follow_ups(removals, order);
    std::vector<uint64_t> versions;
    for (const change &removal : removals)
      versions.push_back(removal.version);
    return versions;
  }
  void record_failure(const change &update, status cause = status::io, uint64_t order = 0) {
    divergence_.record_failed({update}, order != 0 ? order : ++order_, cause);
  }
  using list = std::vector<uint64_t>;

  log_divergence divergence_;
  uint64_t order_ = 0;  // of the last change
};

TEST_F(pool_gaps, a_removal_takes_what_an_object_that_failed_should_have_replaced) {
  record_failure(put("a", 2, 1));
  record_failure(put("a", 3, 2));
  EXPECT_EQ(logged(removal("a", 3)), list{1});
  EXPECT_EQ(following({removal("a", 1)}, order_), list{1});
  EXPECT_EQ(logged(removal("a", 4)), list{});
}

TEST_F(pool_gaps, a_removal_that_failed_is_made_up_for) {
  record_failure(removal("a", 1));
  record_failure(put("a", 2, 0));
  EXPECT_EQ(logged(removal("a", 2)), list{1});
}

TEST_F(pool_gaps, the_next_object_closes_the_gap) {
  record_failure(put("a", 2, 1));
  EXPECT_EQ(logged(put("a", 3, 2)), list{});
  EXPECT_EQ(logged(removal("a", 3)), list{});
}

TEST_F(pool_gaps, what_is_not_there_cannot_be_renamed) {
  record_failure(put("a", 2, 1), status::no_space);
  EXPECT_EQ(logged(renaming("a", "b", 2, 7), status::no_space), list{});
  EXPECT_EQ(logged(renaming("b", "c", 2, 0), status::no_space), list{});
  EXPECT_EQ(logged(removal("c", 2)), list{});
  EXPECT_EQ(logged(removal("b", 9)), list{7});
}

TEST_F(pool_gaps, a_failure_may_be_told_before_what_came_earlier) {
  record_failure(put("a", 3, 2), status::no_space, 12);
  EXPECT_EQ(logged(put("a", 2, 1), status::ok, 11), list{});
  record_failure(put("a", 1, 0), status::io, 10);
  EXPECT_EQ(logged(renaming("a", "a", 3, 0), status::no_space, 13), list{});
  EXPECT_EQ(logged(removal("a", 3), status::ok, 14), list{2});
}

TEST_F(pool_gaps, a_rename_moves_what_the_log_has_under_another_name) {
  record_failure(renaming("a", "b", 1, 0));
  EXPECT_EQ(logged(renaming("b", "c", 1, 2)), list{});
  record_failure(put("a", 3, 0));
  EXPECT_EQ(logged(removal("a", 3)), list{});
  record_failure(put("c", 4, 1));
  EXPECT_EQ(logged(removal("c", 4)), list{1});
}

TEST_F(pool_gaps, what_moved_before_the_removals_that_follow_stays) {
  record_failure(renaming("a", "b", 1, 0));
  record_failure(put("a", 2, 0));
  EXPECT_EQ(logged(removal("a", 2)), list{1});
  uint64_t const removed = order_;
  EXPECT_EQ(logged(renaming("b", "c", 1, 0)), list{});
  EXPECT_EQ(following({removal("a", 1)}, removed), list{});
}

TEST_F(pool_gaps, what_came_back_to_its_name_stays) {
  record_failure(renaming("a", "b", 1, 0));
  record_failure(put("a", 2, 0));
  EXPECT_EQ(logged(removal("a", 2)), list{1});
  uint64_t const removed = order_;
  EXPECT_EQ(logged(renaming("b", "a", 1, 0)), list{});
  record_failure(put("a", 3, 1));
  EXPECT_EQ(following({removal("a", 1)}, removed), list{});
  EXPECT_EQ(logged(removal("a", 3)), list{1});
}

TEST_F(pool_gaps, removals_that_follow_are_made_once) {
  record_failure(put("a", 2, 1));
  EXPECT_EQ(logged(removal("a", 2)), list{1});
  EXPECT_EQ(following({removal("a", 1)}, order_), list{1});
  EXPECT_EQ(following({removal("a", 1)}, order_), list{});
  record_failure(removal("a", 1));
  EXPECT_EQ(logged(removal("a", 7)), list{1});
}

TEST_F(pool_gaps, a_put_does_not_close_the_gap_of_a_later_removal) {
  record_failure(removal("a", 1), status::io, 12);
  EXPECT_EQ(logged(put("a", 1, 0), status::ok, 11), list{});
  record_failure(put("a", 2, 0), status::io, 13);
  EXPECT_EQ(logged(removal("a", 2), status::ok, 14), list{1});
}

TEST_F(pool_gaps, a_rename_of_a_put_that_fails_later_finds_nothing) {
  record_failure(renaming("a", "b", 1, 0), status::io, 12);
  record_failure(put("a", 1, 0), status::no_space, 11);
  EXPECT_EQ(logged(renaming("b", "c", 1, 0), status::io, 13), list{});
}

TEST_F(pool_gaps, a_rename_leaves_nothing_behind) {
  record_failure(removal("a", 1));
  EXPECT_EQ(logged(renaming("z", "a", 2, 0)), list{});
  record_failure(renaming("a", "b", 2, 5));
  EXPECT_EQ(logged(removal("b", 2)), list{5});
}

}  // namespace
}  // namespace tanada::poold
