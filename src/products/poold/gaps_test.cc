// Goal: a durable removal is one of all that the log has under the name, also after the log failed;
// what is not in the log is not taken for durable. Method: changes that failed and changes that
// were kept, in the orders that make a difference.
#include "products/poold/durable.hpp"

#include <gtest/gtest.h>

namespace tanada::poold {
namespace {

using kind = change::kind;

change put(const std::string &name, uint64_t version, uint64_t before) {
  return {.what = kind::put,
          .version = version,
          .object = {},
          .space = "s",
          .name = name,
          .old_name = {},
          .before = before};
}
change removal(const std::string &name, uint64_t version) {
  return {.what = kind::remove,
          .version = version,
          .object = {},
          .space = "s",
          .name = name,
          .old_name = {}};
}
change renaming(const std::string &from, const std::string &to, uint64_t version, uint64_t before) {
  return {.what = kind::rename,
          .version = version,
          .object = {},
          .space = "s",
          .name = to,
          .old_name = from,
          .before = before};
}

class pool_gaps : public testing::Test {
 protected:
  // The versions whose removal must follow.
  std::vector<uint64_t> kept(const change &one, status expected = status::ok, uint64_t order = 0) {
    std::vector<change> to_follow;
    EXPECT_EQ(of.kept({one}, order != 0 ? order : ++order_, to_follow), expected);
    std::vector<uint64_t> versions;
    for (const change &each : to_follow)
      versions.push_back(each.version);
    return versions;
  }
  std::vector<uint64_t> following(std::vector<change> removals, uint64_t order) {
    of.begin_following(removals, order);
    std::vector<uint64_t> versions;
    for (const change &each : removals)
      versions.push_back(each.version);
    return versions;
  }
  void failed(const change &one, status why = status::io, uint64_t order = 0) {
    of.failed({one}, order != 0 ? order : ++order_, why);
  }
  using list = std::vector<uint64_t>;

  gaps of;
  uint64_t order_ = 0;  // of the last change
};

TEST_F(pool_gaps, a_removal_takes_what_an_object_that_failed_should_have_replaced) {
  failed(put("a", 2, 1));
  failed(put("a", 3, 2));
  EXPECT_EQ(kept(removal("a", 3)), list{1});
  EXPECT_EQ(following({removal("a", 1)}, order_), list{1});
  EXPECT_EQ(kept(removal("a", 4)), list{});
}

TEST_F(pool_gaps, a_removal_that_failed_is_made_up_for) {
  failed(removal("a", 1));
  failed(put("a", 2, 0));
  EXPECT_EQ(kept(removal("a", 2)), list{1});
}

TEST_F(pool_gaps, the_next_object_closes_the_gap) {
  failed(put("a", 2, 1));
  EXPECT_EQ(kept(put("a", 3, 2)), list{});
  EXPECT_EQ(kept(removal("a", 3)), list{});
}

TEST_F(pool_gaps, what_is_not_there_cannot_be_renamed) {
  failed(put("a", 2, 1), status::no_space);
  EXPECT_EQ(kept(renaming("a", "b", 2, 7), status::no_space), list{});
  EXPECT_EQ(kept(renaming("b", "c", 2, 0), status::no_space), list{});
  EXPECT_EQ(kept(removal("c", 2)), list{});
  EXPECT_EQ(kept(removal("b", 9)), list{7});
}

TEST_F(pool_gaps, a_failure_may_be_told_before_what_came_earlier) {
  failed(put("a", 3, 2), status::no_space, 12);
  EXPECT_EQ(kept(put("a", 2, 1), status::ok, 11), list{});
  failed(put("a", 1, 0), status::io, 10);
  EXPECT_EQ(kept(renaming("a", "a", 3, 0), status::no_space, 13), list{});
  EXPECT_EQ(kept(removal("a", 3), status::ok, 14), list{2});
}

TEST_F(pool_gaps, a_rename_moves_what_the_log_has_under_another_name) {
  failed(renaming("a", "b", 1, 0));
  EXPECT_EQ(kept(renaming("b", "c", 1, 2)), list{});
  failed(put("a", 3, 0));
  EXPECT_EQ(kept(removal("a", 3)), list{});
  failed(put("c", 4, 1));
  EXPECT_EQ(kept(removal("c", 4)), list{1});
}

TEST_F(pool_gaps, what_moved_before_the_removals_that_follow_stays) {
  failed(renaming("a", "b", 1, 0));
  failed(put("a", 2, 0));
  EXPECT_EQ(kept(removal("a", 2)), list{1});
  uint64_t const removed = order_;
  EXPECT_EQ(kept(renaming("b", "c", 1, 0)), list{});
  EXPECT_EQ(following({removal("a", 1)}, removed), list{});
}

TEST_F(pool_gaps, what_came_back_to_its_name_stays) {
  failed(renaming("a", "b", 1, 0));
  failed(put("a", 2, 0));
  EXPECT_EQ(kept(removal("a", 2)), list{1});
  uint64_t const removed = order_;
  EXPECT_EQ(kept(renaming("b", "a", 1, 0)), list{});
  failed(put("a", 3, 1));
  EXPECT_EQ(following({removal("a", 1)}, removed), list{});
  EXPECT_EQ(kept(removal("a", 3)), list{1});
}

TEST_F(pool_gaps, removals_that_follow_are_made_once) {
  failed(put("a", 2, 1));
  EXPECT_EQ(kept(removal("a", 2)), list{1});
  EXPECT_EQ(following({removal("a", 1)}, order_), list{1});
  EXPECT_EQ(following({removal("a", 1)}, order_), list{});
  failed(removal("a", 1));
  EXPECT_EQ(kept(removal("a", 7)), list{1});
}

TEST_F(pool_gaps, a_put_does_not_close_the_gap_of_a_later_removal) {
  failed(removal("a", 1), status::io, 12);
  EXPECT_EQ(kept(put("a", 1, 0), status::ok, 11), list{});
  failed(put("a", 2, 0), status::io, 13);
  EXPECT_EQ(kept(removal("a", 2), status::ok, 14), list{1});
}

TEST_F(pool_gaps, a_rename_of_a_put_that_fails_later_finds_nothing) {
  failed(renaming("a", "b", 1, 0), status::io, 12);
  failed(put("a", 1, 0), status::no_space, 11);
  EXPECT_EQ(kept(renaming("b", "c", 1, 0), status::io, 13), list{});
}

TEST_F(pool_gaps, a_rename_leaves_nothing_behind) {
  failed(removal("a", 1));
  EXPECT_EQ(kept(renaming("z", "a", 2, 0)), list{});
  failed(renaming("a", "b", 2, 5));
  EXPECT_EQ(kept(removal("b", 2)), list{5});
}

}  // namespace
}  // namespace tanada::poold
