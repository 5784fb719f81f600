#include "pool_top_view.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace tanada::command {
namespace {

tnd_pool_statistics sample(uint64_t uptime_s, uint64_t written_size) {
  tnd_pool_statistics statistics{};
  statistics.uptime_ns = uptime_s * 1'000'000'000;
  statistics.written_size = written_size;
  statistics.capacity = 100;
  statistics.used = 25;
  return statistics;
}

TEST(pool_top, rates_are_of_the_daemons_clock) {
  auto const previous = sample(10, 1000), current = sample(12, 5000);
  EXPECT_EQ(rates_between(&previous, current).written, 2000);
  EXPECT_EQ(rates_between(nullptr, current).written, 0);
}

TEST(pool_top, a_daemon_that_started_anew_has_no_rates) {
  auto const previous = sample(1000, 1000), current = sample(2, 5000);
  EXPECT_EQ(rates_between(&previous, current).written, 0);
  auto const less = sample(1002, 500);
  EXPECT_EQ(rates_between(&previous, less).written, 0);
}

TEST(pool_top, a_sparkline_has_its_largest_value_at_the_top) {
  EXPECT_EQ(sparkline({0, 7, 14, 3}, 10), "▁▅█▃");
  EXPECT_EQ(sparkline({14, 0, 1}, 2), "▁█");
  EXPECT_EQ(sparkline({0, 0}, 5), "▁▁");
  EXPECT_EQ(sparkline({}, 5), "");
}

TEST(pool_top, lines_keep_to_the_width) {
  top_view view{"pool://host:7440/" + std::string(200, 'n'),
                {},
                sample(10, 1u << 31),
                {1e12, 1e12, 1e9, 1, 1, 1},
                {}};
  view.history.resize(300);
  for (unsigned width = 1; width < 200; width++) {
    std::istringstream lines{top_text(view, width)};
    for (std::string line; std::getline(lines, line);) {
      auto const columns = std::count_if(
          line.begin(), line.end(), [](char letter) { return (letter & 0xC0) != 0x80; });
      EXPECT_LE(columns, width < 45 ? width : std::max(width, 45u)) << line;
    }
  }
}

TEST(pool_top, the_bar_is_the_share_that_is_used) {
  top_view const view{"u", {}, sample(1, 0), {}, {}};
  EXPECT_NE(top_text(view, 78).find("[##########..............................]  25.0 %"),
            std::string::npos)
      << top_text(view, 78);
  EXPECT_EQ(top_json(view)["used"], 25);
}

TEST(pool_top, servers_of_a_cluster_have_lines_and_sums) {
  top_view view{"u", {}, sample(1, 0), {}, {}};
  view.servers = {{"a:1", sample(1, 0), {.written = 3}}, {"b:1", sample(1, 0), {.written = 4}}};
  EXPECT_EQ(sum_of(view.servers).written, 7);
  EXPECT_NE(top_text(view, 100).find("server     b:1  25 B of 100 B used"), std::string::npos)
      << top_text(view, 100);
  EXPECT_EQ(top_json(view)["servers"][1]["per_second"]["written_size"], 4);
  view.servers.clear();
  EXPECT_FALSE(top_json(view).contains("servers"));
  EXPECT_FALSE(top_json(view).contains("cluster"));
}

TEST(pool_top, a_cluster_that_is_not_whole_says_why) {
  top_view view{"u", {}, sample(1, 0), {}, {}};
  view.cluster = top_cluster{TND_POOL_CLUSTER_INIT, 3};
  EXPECT_NE(top_text(view, 100).find("cluster    3 servers up, all copies there\n"),
            std::string::npos)
      << top_text(view, 100);
  view.cluster->up_count = 1;
  view.cluster->away_count = 2;
  view.cluster->sums.missing_count = 24;
  view.cluster->sums.offline_count = 1;
  EXPECT_NE(top_text(view, 100).find(
                "cluster    1 server up, 2 away, 24 copies missing, 1 partition not served\n"),
            std::string::npos)
      << top_text(view, 100);
  EXPECT_EQ(top_json(view)["cluster"]["away"], 2);
}

}  // namespace
}  // namespace tanada::command
