#include "seams/bootstrap/value_table.hpp"

#include <gtest/gtest.h>

namespace tanada::port {
namespace {

std::vector<std::byte> bytes(std::string_view text) {
  auto const view = std::as_bytes(std::span{text.data(), text.size()});
  return {view.begin(), view.end()};
}

TEST(value_table, values_are_visible_once_settled) {
  value_table table;
  EXPECT_EQ(table.publish("a", bytes("one")), status::ok);
  EXPECT_EQ(table.find("a").error(), status::no_entry);
  EXPECT_FALSE(table.settle().empty());
  EXPECT_EQ(table.find("a").value(), bytes("one"));
  EXPECT_TRUE(table.settle().empty());
}

TEST(value_table, a_key_is_given_once) {
  value_table table;
  EXPECT_EQ(table.publish("a", {}), status::ok);
  EXPECT_EQ(table.publish("a", {}), status::exists);
  table.settle();
  EXPECT_EQ(table.publish("a", {}), status::exists);
  EXPECT_EQ(table.publish("", {}), status::invalid);
}

TEST(value_table, sizes_are_bounded) {
  value_table table;
  std::vector<std::byte> const largest(bootstrap_value_size_max),
      larger(bootstrap_value_size_max + 1);
  EXPECT_EQ(table.publish(std::string(bootstrap_key_size_max, 'k'), largest), status::ok);
  EXPECT_EQ(table.publish(std::string(bootstrap_key_size_max + 1, 'k'), {}), status::too_big);
  EXPECT_EQ(table.publish("b", larger), status::too_big);
}

TEST(value_table, others_take_in_what_one_settled) {
  value_table mine, other;
  EXPECT_EQ(mine.publish("a", bytes("one")), status::ok);
  EXPECT_EQ(mine.publish("b", {}), status::ok);
  EXPECT_EQ(other.absorb(mine.settle()), status::ok);
  EXPECT_EQ(mine.publish("c", bytes("three")), status::ok);
  EXPECT_EQ(other.absorb(mine.settle()), status::ok);
  EXPECT_EQ(other.find("a").value(), bytes("one"));
  EXPECT_EQ(other.find("b").value(), bytes(""));
  EXPECT_EQ(other.find("c").value(), bytes("three"));
  EXPECT_EQ(other.find("d").error(), status::no_entry);
}

TEST(value_table, bytes_cut_short_or_too_large_are_refused) {
  value_table mine;
  EXPECT_EQ(mine.publish("a", bytes("one")), status::ok);
  auto const good = mine.settle();
  for (size_t size = 1; size < good.size(); size++) {
    value_table other;
    EXPECT_EQ(other.absorb(std::span{good}.first(size)), status::protocol) << size;
    EXPECT_EQ(other.find("a").error(), status::no_entry);
  }
  auto bad = good;
  bad[3] = std::byte{0xff};
  EXPECT_EQ(value_table{}.absorb(bad), status::protocol);
}

}  // namespace
}  // namespace tanada::port
