#include "text.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

TEST(text, sizes_have_units_of_1024) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(double(uint64_t{5} << 40)), "5.0 TiB");
}

TEST(text, durations_are_short) {
  EXPECT_EQ(duration_text(0.00000125), "1.2 us");
  EXPECT_EQ(duration_text(0.025), "25.0 ms");
  EXPECT_EQ(duration_text(59.9), "59.9 s");
  EXPECT_EQ(duration_text(245), "4:05");
  EXPECT_EQ(duration_text(7389), "2:03:09");
}

TEST(text, times_are_utc) {
  EXPECT_EQ(time_text(1'000'000'000'999'999'999u), "2001-09-09 01:46:40");
}

TEST(text, names_cannot_command_a_terminal) {
  EXPECT_EQ(printable("a\x1b[2J\n\x7f"), "a\\x1B[2J\\x0A\\x7F");
}

}  // namespace
}  // namespace tanada::command
