// The table of published values.
#include "seams/bootstrap/value_table.hpp"

#include <gtest/gtest.h>

namespace tanada::seams {
namespace {

std::vector<std::byte> bytes(std::string_view text) {
  auto const view = std::as_bytes(std::span{text.data(), text.size()});
  return {view.begin(), view.end()};
}

TEST(value_table, values_are_visible_once_settled) {
  value_table table;
  EXPECT_EQ(table.publish("a", bytes("one")), status::ok);
  EXPECT_EQ(table.find("a").error(), status::no_entry);
  EXPECT_FALSE(table.take_published().empty());
  EXPECT_EQ(table.find("a").value(), bytes("one"));
  EXPECT_TRUE(table.take_published().empty());
}

TEST(value_table, a_key_is_given_once) {
  value_table table;
  EXPECT_EQ(table.publish("a", {}), status::ok);
  EXPECT_EQ(table.publish("a", {}), status::exists);
  table.take_published();
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
  value_table sender, receiver;
  EXPECT_EQ(sender.publish("a", bytes("one")), status::ok);
  EXPECT_EQ(sender.publish("b", {}), status::ok);
  EXPECT_EQ(receiver.merge(sender.take_published()), status::ok);
  EXPECT_EQ(sender.publish("c", bytes("three")), status::ok);
  EXPECT_EQ(receiver.merge(sender.take_published()), status::ok);
  EXPECT_EQ(receiver.find("a").value(), bytes("one"));
  EXPECT_EQ(receiver.find("b").value(), bytes(""));
  EXPECT_EQ(receiver.find("c").value(), bytes("three"));
  EXPECT_EQ(receiver.find("d").error(), status::no_entry);
}

TEST(value_table, bytes_cut_short_or_too_large_are_refused) {
  value_table sender;
  EXPECT_EQ(sender.publish("a", bytes("one")), status::ok);
  auto const good = sender.take_published();
  for (size_t size = 1; size < good.size(); size++) {
    value_table receiver;
    EXPECT_EQ(receiver.merge(std::span{good}.first(size)), status::protocol) << size;
    EXPECT_EQ(receiver.find("a").error(), status::no_entry);
  }
  auto bad = good;
  bad[3] = std::byte{0xff};
  EXPECT_EQ(value_table{}.merge(bad), status::protocol);
}

}  // namespace
}  // namespace tanada::seams
