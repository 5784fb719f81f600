#include "pool_location.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

location parse(const std::string &word) {
  command_report report{false};
  auto parsed = location_parse(word, report);
  EXPECT_TRUE(parsed) << word;
  return parsed.value_or(location{});
}

TEST(place, is_an_object_or_a_file) {
  location const object = parse("pool://node/runs/a/b");
  EXPECT_TRUE(object.is_pool);
  EXPECT_EQ(object.address.object, "a/b");
  EXPECT_EQ(object.text(), "pool://node:7440/runs/a/b");
  EXPECT_EQ(parse("some/file").text(), "some/file");
  EXPECT_TRUE(parse("-").is_standard());
  command_report report{false};
  for (const char *word : {"gfarm:///x", "", "pool://", "pool://host", "pool:///runs/a"})
    EXPECT_FALSE(location_parse(word, report)) << word;
  EXPECT_TRUE(report.has_failed());
}

TEST(place, goes_under_another) {
  EXPECT_EQ(parse("pool://h/ns/").under("a").text(), "pool://h:7440/ns/a");
  EXPECT_EQ(parse("pool://h/ns/p").under("a/b").text(), "pool://h:7440/ns/p/a/b");
  EXPECT_EQ(parse("pool://[::1]:9/ns/p/").under("a").text(), "pool://[::1]:9/ns/p/a");
  EXPECT_EQ(parse("d/").under("a").path, "d/a");
  EXPECT_EQ(parse("d").under("").path, "d");
}

TEST(place, last_names) {
  EXPECT_EQ(last_name(parse("pool://h/ns/a/b/")), "b");
  EXPECT_EQ(last_name(parse("pool://h/ns")), "");
  EXPECT_EQ(last_name(parse("/x/y")), "y");
  EXPECT_EQ(last_name(parse("/")), "");
  EXPECT_EQ(last_name(parse("../..")), "");
}

TEST(place, names_that_would_leave_a_folder_are_found) {
  for (const char *name : {"a", "a/b", "..a/b..", "a/.b"})
    EXPECT_TRUE(is_safe_below(name)) << name;
  for (const char *name : {"", "..", "a/../b", "/a", "a//b", "a/", "./a", "../../etc/passwd"})
    EXPECT_FALSE(is_safe_below(name)) << name;
  EXPECT_FALSE(is_safe_below(std::string_view("a\0b", 3)));
}

TEST(place, a_prefix_ends_at_a_slash) {
  EXPECT_TRUE(is_under("a/b", "a") && is_under("a/b", "a/") && is_under("a", "a") &&
              is_under("a", ""));
  EXPECT_FALSE(is_under("ab", "a") || is_under("b/a", "a"));
}

}  // namespace
}  // namespace tanada::command
