#include "core/base/escape.hpp"

#include <gtest/gtest.h>

namespace tanada {
namespace {

TEST(escape_control, no_byte_can_end_a_line_or_command_a_terminal) {
  EXPECT_EQ(escape_control("a\nb\r\x1b[2J\x7f\t"), "a\\x0Ab\\x0D\\x1B[2J\\x7F\\x09");
  EXPECT_EQ(escape_control(std::string_view("\0x", 2)), "\\x00x");
}

// Terminals interpret U+009B as ESC [.
TEST(escape_control, control_characters_of_two_bytes_are_escaped) {
  EXPECT_EQ(escape_control("a\xc2\x9b"
                           "2Jb"),
            "a\\xC2\\x9B2Jb");
  EXPECT_EQ(escape_control("\xc2\x80\xc2\x9f"), "\\xC2\\x80\\xC2\\x9F");
  EXPECT_EQ(escape_control("\xc2\xa0\xc3\x9b\xc2"), "\xc2\xa0\xc3\x9b\xc2");
}

TEST(escape_control, other_bytes_stay) {
  EXPECT_EQ(escape_control("棚田 \xff \\ \"x\""), "棚田 \xff \\ \"x\"");
  EXPECT_EQ(escape_control(escape_control("a\nb")), escape_control("a\nb"));
  EXPECT_EQ(escape_control(""), "");
}

}  // namespace
}  // namespace tanada
