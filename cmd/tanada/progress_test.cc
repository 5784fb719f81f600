#include "progress.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

constexpr uint64_t gib = uint64_t{1} << 30;

TEST(progress_line, tells_share_rate_and_time_left) {
  std::string const line =
      progress_line({"runs/field.0100", 3 * gib, 4 * gib, double(gib) / 2}, 120);
  EXPECT_NE(line.find("runs/field.0100"), line.npos);
  EXPECT_NE(line.find(" 75 %  3.0 GiB / 4.0 GiB  512.0 MiB/s  2.0 s left"), line.npos) << line;
  EXPECT_NE(line.find("[#################......]"), line.npos) << line;
}

TEST(progress_line, without_a_total_there_is_no_share) {
  std::string const line = progress_line({"-", gib, 0, double(gib)}, 100);
  EXPECT_NE(line.find("1.0 GiB  1.0 GiB/s"), line.npos) << line;
  EXPECT_EQ(line.find('%'), line.npos);
  EXPECT_EQ(line.find("left"), line.npos);
}

TEST(progress_line, keeps_to_every_width) {
  for (std::string const &name : {std::string("a"), std::string(300, 'n')})
    for (unsigned width = 1; width < 200; width++)
      EXPECT_LE(progress_line({name, gib, 2 * gib, 1000.0}, width).size(), width);
}

TEST(progress_line, a_name_cannot_command_the_terminal) {
  EXPECT_EQ(progress_line({"\x1b[2J", 1, 2, 1}, 100).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tanada::command
