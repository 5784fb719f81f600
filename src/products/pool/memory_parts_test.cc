#include "products/pool/memory_parts.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tanada::pool {
namespace {

iovec memory_of(std::string &text) {
  return {text.data(), text.size()};
}

TEST(part_cursor, fills_parts_in_order_and_returns_what_does_not_fit) {
  std::string first(3, '.'), empty, second(2, '.');
  part_cursor cursor{{memory_of(first), memory_of(empty), memory_of(second)}};
  EXPECT_EQ(cursor.remaining_size(), 5u);
  EXPECT_EQ(cursor.fill(std::as_bytes(std::span{"abcd", 4})), 4u);
  EXPECT_EQ(cursor.remaining_size(), 1u);
  EXPECT_EQ(cursor.fill(std::as_bytes(std::span{"efg", 3})), 1u);
  EXPECT_EQ(first + second, "abcde");
  EXPECT_TRUE(cursor.is_at_end());
  EXPECT_EQ(cursor.advance(7), 7u);
}

TEST(part_cursor, is_at_its_end_if_all_parts_are_empty) {
  std::string empty, text = "text";
  EXPECT_TRUE(part_cursor{}.is_at_end());
  EXPECT_TRUE((part_cursor{{memory_of(empty), memory_of(empty)}}).is_at_end());
  part_cursor cursor{{memory_of(empty), memory_of(text), memory_of(empty)}};
  EXPECT_EQ(cursor.advance(4), 0u);
  EXPECT_TRUE(cursor.is_at_end());
}

TEST(part_cursor, lists_at_most_the_bytes_that_are_wanted) {
  std::string first = "abc", second = "def";
  part_cursor cursor{{memory_of(first), memory_of(second)}};
  EXPECT_EQ(cursor.advance(1), 0u);
  part_list list;
  cursor.add_to(list, 3);
  ASSERT_EQ(list.parts().size(), 2u);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(list.parts()[0].iov_base, first.data() + 1);
  EXPECT_EQ(list.parts()[1].iov_len, 1u);
}

TEST(part_list, leaves_out_parts_that_exceed_its_maximum_count) {
  std::string text(1000, '.');
  part_list list;
  for (char &byte : text) {
    list.add(&byte, 0);
    list.add(&byte, 1);
  }
  EXPECT_TRUE(list.is_full());
  EXPECT_EQ(list.size(), list.parts().size());
  EXPECT_LT(list.size(), text.size());
}

}  // namespace
}  // namespace tanada::pool
