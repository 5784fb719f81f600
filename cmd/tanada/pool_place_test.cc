#include "pool_place.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

place at(const std::string &word) {
  answer told{false};
  auto made = place_parse(word, told);
  EXPECT_TRUE(made) << word;
  return made.value_or(place{});
}

TEST(place, is_an_object_or_a_file) {
  place const object = at("pool://node/runs/a/b");
  EXPECT_TRUE(object.is_pool);
  EXPECT_EQ(object.at.object, "a/b");
  EXPECT_EQ(object.text(), "pool://node:7440/runs/a/b");
  EXPECT_EQ(at("some/file").text(), "some/file");
  EXPECT_TRUE(at("-").is_standard());
  answer told{false};
  for (const char *word : {"gfarm:///x", "", "pool://", "pool://host", "pool:///runs/a"})
    EXPECT_FALSE(place_parse(word, told)) << word;
  EXPECT_TRUE(told.has_failed());
}

TEST(place, goes_under_another) {
  EXPECT_EQ(at("pool://h/ns/").under("a").text(), "pool://h:7440/ns/a");
  EXPECT_EQ(at("pool://h/ns/p").under("a/b").text(), "pool://h:7440/ns/p/a/b");
  EXPECT_EQ(at("pool://[::1]:9/ns/p/").under("a").text(), "pool://[::1]:9/ns/p/a");
  EXPECT_EQ(at("d/").under("a").path, "d/a");
  EXPECT_EQ(at("d").under("").path, "d");
}

TEST(place, last_names) {
  EXPECT_EQ(last_name(at("pool://h/ns/a/b/")), "b");
  EXPECT_EQ(last_name(at("pool://h/ns")), "");
  EXPECT_EQ(last_name(at("/x/y")), "y");
  EXPECT_EQ(last_name(at("/")), "");
  EXPECT_EQ(last_name(at("../..")), "");
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
