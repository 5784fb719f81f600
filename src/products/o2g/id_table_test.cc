// IDs are unique, stale ones find nothing, and no ID is 0.

#include "products/o2g/id_table.hpp"

#include <gtest/gtest.h>

namespace tanada::o2g {
namespace {

TEST(slots, finds_by_number_once) {
  id_table<int> tested;
  int a = 1, b = 2;
  uint64_t const id_a = tested.add(&a), id_b = tested.add(&b);
  EXPECT_EQ(tested.find(id_a), &a);
  EXPECT_EQ(tested.remove(id_b), &b);
  EXPECT_EQ(tested.remove(id_b), nullptr);
  uint64_t const new_id = tested.add(&b);
  EXPECT_NE(new_id, id_b);
  EXPECT_EQ(tested.find(id_b), nullptr);
  EXPECT_EQ(tested.find(new_id), &b);
  EXPECT_EQ(tested.find(uint64_t{1} << 32 | 99), nullptr);
}

// A program with one outstanding request at a time always uses the same entry.
TEST(slots, have_no_number_0_when_the_generations_begin_anew) {
  id_table<int> tested{~uint32_t{0}};
  int object = 1;
  for (int i = 0; i < 3; i++) {
    uint64_t const id = tested.add(&object);
    EXPECT_NE(id, 0u);
    EXPECT_EQ(tested.remove(id), &object);
  }
}

}  // namespace
}  // namespace tanada::o2g
